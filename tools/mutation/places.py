# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Where a fault can be planted, and what it would be. libclang finds the places, so that every replacement is an
# expression of the same type: CLEAVE_FAULT(n) ? (what is wrong) : (what stands there).

import dataclasses
import json
import os
import shlex

from clang import cindex

# Faults of each kind are drawn equally often: of the places that libclang finds, most are numbers and comparisons.
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOGIC = {"&&": "||", "||": "&&"}
COMBINERS = {"min": "max", "max": "min"}


@dataclasses.dataclass
class Place:
    file: str        # below the root
    line: int
    start: int       # bytes, [start, end)
    end: int
    kind: str
    text: str        # what stands there
    wrong: str       # what the fault makes of it

    def planted(self, number):
        if self.kind == "statement dropped":
            return f"if (!CLEAVE_FAULT({number})) {self.text}"
        return f"(CLEAVE_FAULT({number}) ? ({self.wrong}) : ({self.text}))"


def compile_arguments(build, root):
    """Flags of each folder's sources, from the build's compilation database."""
    arguments = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for entry in json.load(file):
            folder = entry["file"].split("/CMakeFiles/")[0].replace(build, root)
            if not folder.startswith(root):
                continue
            kept, words = [], shlex.split(entry["command"])[1:]
            while words:
                word = words.pop(0)
                if word in ("-o", "-c", "-include"):
                    words.pop(0)
                elif word.startswith(("-I", "-D", "-std")):
                    kept.append(word)
                elif word == "-isystem":
                    kept += [word, words.pop(0)]
            # A folder may hold several libraries: what one of them does without does no harm.
            known = arguments.setdefault(folder, [])
            if kept != known:
                known += [word for word in kept if not word.startswith("/") and word not in known and word != "-isystem"]
                for flag, path in zip(kept, kept[1:]):
                    if flag == "-isystem" and path not in known:
                        known += [flag, path]
    return arguments


def arguments_of(file, root, arguments):
    folder = os.path.dirname(os.path.join(root, file))
    while folder not in arguments and len(folder) > len(root):
        folder = os.path.dirname(folder)
    # Sources below a library's folder belong to it.
    return arguments.get(folder) or next(iter(arguments.values()))


class Finder:
    """The places of one source file."""

    def __init__(self, root, file, arguments):
        self.root, self.file = root, file
        self.path = os.path.join(root, file)
        with open(self.path, "rb") as source:
            self.bytes = source.read()
        self.unit = cindex.Index.create().parse(self.path, args=["-x", "c++", "-ferror-limit=3", *arguments])
        errors = [d for d in self.unit.diagnostics if d.severity >= cindex.Diagnostic.Error]
        if errors:
            raise RuntimeError(f"{file} does not parse: {errors[0]}")
        self.places = []

    def find(self):
        for cursor in self.unit.cursor.get_children():
            if cursor.location.file and cursor.location.file.name == self.path:
                self.visit(cursor, False)
        return self.places

    def visit(self, cursor, runs):
        """Visits what stands in `cursor`; `runs`: whether it runs, as the inside of a function does."""
        kind = cindex.CursorKind
        if cursor.kind in (kind.STATIC_ASSERT, kind.ENUM_DECL, kind.TEMPLATE_REF, kind.TYPE_REF):
            return
        if cursor.kind in (kind.VAR_DECL, kind.FUNCTION_DECL) and "constexpr" in self.text(cursor).split("{")[0]:
            return
        children = list(cursor.get_children())
        if runs and self.is_plain(cursor):
            self.examine(cursor, children)
        for index, child in enumerate(children):
            if cursor.kind == kind.CASE_STMT and index == 0:
                continue
            if cursor.kind == kind.COMPOUND_STMT and child.kind == kind.CALL_EXPR:
                self.examine_statement(child)
            self.visit(child, runs or cursor.kind == kind.COMPOUND_STMT or child.kind == kind.COMPOUND_STMT)

    def text(self, cursor):
        return self.bytes[cursor.extent.start.offset:cursor.extent.end.offset].decode("utf-8")

    def is_plain(self, cursor):
        """Whether the extent is text of this file: no macro, nothing of another file."""
        extent = cursor.extent
        return (extent.start.file and extent.start.file.name == self.path and extent.end.file.name == self.path
                and extent.end.offset > extent.start.offset)

    def add(self, cursor, kind, wrong):
        text = self.text(cursor)
        if "#" in text or "assert(" in text:
            return
        self.places.append(Place(self.file, cursor.extent.start.line, cursor.extent.start.offset,
                                 cursor.extent.end.offset, kind, text, wrong))

    def examine(self, cursor, children):
        kind = cindex.CursorKind
        if cursor.kind == kind.BINARY_OPERATOR and len(children) == 2:
            self.examine_binary(cursor, *children)
        elif cursor.kind == kind.UNARY_OPERATOR and len(children) == 1:
            operand, text = self.text(children[0]), self.text(cursor)
            if text.startswith(("-", "!")) and text[1:].strip() == operand and not operand.isdigit():
                self.add(cursor, "sign", operand if text[0] == "-" else f"bool({operand})")
        elif cursor.kind == kind.INTEGER_LITERAL and self.text(cursor) in ("0", "1", "2"):
            number = self.text(cursor)
            self.add(cursor, "off by one", str(int(number) + 1) if number != "2" else "1")
        elif cursor.kind == kind.CALL_EXPR:
            self.examine_call(cursor)

    def examine_binary(self, cursor, left, right):
        if not (self.is_plain(left) and self.is_plain(right)):
            return
        between = self.bytes[left.extent.end.offset:right.extent.start.offset].decode("utf-8").strip()
        a, b = self.text(left), self.text(right)
        if between in RELATIONS:
            self.add(cursor, "relation", f"({a}) {RELATIONS[between]} ({b})")
        elif between in LOGIC:
            self.add(cursor, "combiner", f"({a}) {LOGIC[between]} ({b})")
        elif between in ("+", "-") and "*" not in cursor.type.spelling:
            self.add(cursor, "sign", f"({a}) {'-' if between == '+' else '+'} ({b})")
        elif between in ("*", "/"):
            self.add(cursor, "scale", f"({a})")
        if between in ("-", "/", "%") and left.type.spelling == right.type.spelling:
            self.add(cursor, "operands swapped", f"({b}) {between} ({a})")

    def examine_call(self, cursor):
        given = [argument for argument in cursor.get_arguments() if argument is not None]
        if len(given) < 2 or not all(self.is_plain(argument) for argument in given):
            return
        text, start = self.text(cursor), cursor.extent.start.offset
        name = cursor.spelling
        if not text.endswith(")") or name.startswith("operator"):
            return
        if name in COMBINERS and f"std::{name}" in text[:10]:
            self.add(cursor, "combiner", text.replace(f"std::{name}", f"std::{COMBINERS[name]}", 1))
            return
        if cursor.type.spelling == "void":
            return
        for first, second in zip(given, given[1:]):
            a, b = self.text(first), self.text(second)
            if a != b and first.type.get_canonical().spelling == second.type.get_canonical().spelling \
                    and "std::move" not in text and "[" not in text and "{" not in text:
                between = self.bytes[first.extent.end.offset:second.extent.start.offset].decode("utf-8")
                wrong = (text[:first.extent.start.offset - start] + b + between + a
                         + text[second.extent.end.offset - start:])
                self.add(cursor, "operands swapped", wrong)
                return

    def examine_statement(self, call):
        """A call for what it does: one of no result, or of one that nobody reads."""
        if self.is_plain(call) and call.spelling and not call.spelling.startswith("operator"):
            text = self.text(call)
            after = self.bytes[call.extent.end.offset:call.extent.end.offset + 1]
            if after == b";" and text.endswith(")") and "report_fatal" not in text:
                self.add(call, "statement dropped", "")
