// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is kept of compiled kernels, and what is not believed.

#include "passes/codegen/ObjectCache.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace cleave;
namespace fs = std::filesystem;

namespace {

/// A folder of a test, and its variable of the environment.
class ObjectCacheTest : public ::testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> made;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-object-cache", made));
    folder = made.str().str();
    if (const char *set = std::getenv("CLEAVE_KERNEL_CACHE"))
      before = set;
  }
  void TearDown() override {
    fs::remove_all(folder);
    if (before)
      setenv("CLEAVE_KERNEL_CACHE", before->c_str(), 1);
    else
      unsetenv("CLEAVE_KERNEL_CACHE");
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder))
      found.push_back(entry.path());
    return found;
  }

  std::string folder;
  std::optional<std::string> before;
};

llvm::SmallVector<char, 0> bytes(llvm::StringRef text) { return {text.begin(), text.end()}; }

/// A module of one function that returns a number.
std::string nameOf(int number, llvm::StringRef processor = "x86-64-v3") {
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  llvm::IRBuilder<> builder(context);
  auto *type = llvm::FunctionType::get(builder.getInt32Ty(), false);
  auto *function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "f", module);
  function->addFnAttr("tune-cpu", processor);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "", function));
  builder.CreateRet(builder.getInt32(static_cast<uint32_t>(number)));
  return contentName(module);
}

TEST_F(ObjectCacheTest, FindsWhatWasKept) {
  ObjectCache cache(folder);
  EXPECT_FALSE(cache.find("a"));
  cache.keep("a", bytes("one"));
  cache.keep("b", bytes(""));
  cache.keep("a", bytes("two"));
  EXPECT_EQ(ObjectCache(folder).find("a"), bytes("two"));
  EXPECT_EQ(ObjectCache(folder).find("b"), bytes(""));
  EXPECT_FALSE(cache.find("c"));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(ObjectCacheTest, NamesDependOnInstructionsAndAttributes) {
  EXPECT_EQ(nameOf(1), nameOf(1));
  EXPECT_EQ(nameOf(1).size(), 32u);
  EXPECT_NE(nameOf(1), nameOf(2));
  EXPECT_NE(nameOf(1), nameOf(1, "x86-64-v4"));
}

// Cut at every length, and with every byte changed.
TEST_F(ObjectCacheTest, DoesNotBelieveDamagedFiles) {
  ObjectCache cache(folder);
  cache.keep("a", bytes("an object"));
  fs::path path = files().at(0);
  std::string whole(fs::file_size(path), '\0');
  std::ifstream(path, std::ios::binary).read(whole.data(), static_cast<std::streamsize>(whole.size()));
  auto write = [&](const std::string &text) { std::ofstream(path, std::ios::binary) << text; };
  for (size_t i = 0; i != whole.size(); ++i) {
    write(whole.substr(0, i));
    EXPECT_FALSE(cache.find("a")) << i << " bytes";
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write(changed);
    EXPECT_FALSE(cache.find("a")) << "byte " << i;
  }
  write(whole + "x");
  EXPECT_FALSE(cache.find("a"));
  write(whole);
  EXPECT_EQ(cache.find("a"), bytes("an object"));
}

// Who may write to the folder may have code run.
TEST_F(ObjectCacheTest, UsesNoFolderThatOthersMayWriteTo) {
  ObjectCache(folder).keep("a", bytes("one"));
  fs::permissions(folder, fs::perms::owner_all | fs::perms::others_write);
  EXPECT_FALSE(ObjectCache(folder).find("a"));
  fs::permissions(folder, fs::perms::owner_all | fs::perms::group_write);
  EXPECT_FALSE(ObjectCache(folder).find("a"));
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_TRUE(ObjectCache(folder).find("a"));
}

TEST_F(ObjectCacheTest, KeepsNothingWhereItCannot) {
  ObjectCache nowhere("");
  nowhere.keep("a", bytes("one"));
  nowhere.prune();
  EXPECT_FALSE(nowhere.find("a"));
  std::string file = folder + "/file";
  std::ofstream(file) << "not a folder";
  ObjectCache(file).keep("a", bytes("one"));
  ObjectCache(file + "/below").keep("a", bytes("one"));
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(ObjectCacheTest, IsWhereTheEnvironmentSays) {
  setenv("CLEAVE_KERNEL_CACHE", (folder + "/made").c_str(), 1);
  ObjectCache::ofUser().keep("a", bytes("one"));
  EXPECT_TRUE(ObjectCache(folder + "/made").find("a"));
  EXPECT_EQ(fs::status(folder + "/made").permissions(), fs::perms::owner_all);
  setenv("CLEAVE_KERNEL_CACHE", "off", 1);
  EXPECT_FALSE(ObjectCache::ofUser().find("a"));
}

} // namespace
