# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Serving over TLS: a chain of certificates made by openssl, clients by curl, Python's ssl, @grpc/grpc-js and `cleave
# load`; clients that speak something else, or nothing; and files that are not what they should be.

import http.client
import json
import os
import queue
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import warnings

from cleave_process import program
from serve_process import KnownModel, Server, binary_request, read_outputs, run

INFER = "/v2/models/lenet/infer"
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Identities:
    """A root that clients trust, a server's certificate with the one between them, and others that nobody should take."""

    def __init__(self, folder):
        self.folder = folder
        self.root = self.path("root.pem")
        run("openssl", "req", "-x509", *NEW_KEY, "-keyout", self.path("root.key"), "-out", self.root, "-days", "2",
            "-subj", "/CN=root")
        middle = self.signed("middle", "root", "basicConstraints=critical,CA:TRUE")
        leaf = self.signed("server", "middle", "subjectAltName=IP:127.0.0.1")
        self.certificate, self.key = self.path("chain.pem"), self.path("server.key")
        with open(self.certificate, "w", encoding="utf-8") as chain:
            for part in (leaf, middle):
                with open(part, encoding="utf-8") as file:
                    chain.write(file.read())
        self.flags = ["--tls-certificate", self.certificate, "--tls-key", self.key]

    def path(self, name):
        return os.path.join(self.folder, name)

    def signed(self, name, by, extension):
        """A certificate's file."""
        run("openssl", "req", *NEW_KEY, "-keyout", self.path(name + ".key"), "-out", self.path(name + ".csr"), "-subj",
            "/CN=" + name)
        with open(self.path("extensions"), "w", encoding="utf-8") as file:
            file.write(extension + "\n")
        run("openssl", "x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(by + ".pem"), "-CAkey",
            self.path(by + ".key"), "-CAcreateserial", "-days", "2", "-extfile", self.path("extensions"), "-out",
            self.path(name + ".pem"))
        return self.path(name + ".pem")

    def dated(self, name, begin, end):
        """A certificate for the server's key that is valid between two dates."""
        config = self.path("ca.cnf")
        with open(config, "w", encoding="utf-8") as file:
            file.write("[ca]\ndefault_ca=x\n[x]\ndatabase=index\nnew_certs_dir=.\nrand_serial=yes\ndefault_md=sha256\n"
                       "policy=p\nunique_subject=no\n[p]\ncommonName=supplied\n")
        with open(self.path("index"), "w", encoding="utf-8"):
            pass
        subprocess.run(["openssl", "ca", "-batch", "-selfsign", "-config", config, "-keyfile", self.key, "-in",
                        self.path("server.csr"), "-startdate", begin, "-enddate", end, "-out", self.path(name)],
                       cwd=self.folder, check=True, capture_output=True)
        return self.path(name)


def trusting(identities):
    return ssl.create_default_context(cafile=identities.root)


def connect(server, context):
    return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=60, context=context)


def check_answers(server, known, identities):
    """Requests of all sizes, one after the other on a connection, by both versions of TLS."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = trusting(identities)
        context.minimum_version = context.maximum_version = version
        connection = connect(server, context)
        for indices in ([0], [1, 2], [3] * 400, [4]):
            body, headers = binary_request(known.inputs[indices], parameters={"binary_data_output": True})
            status, answer_headers, answer = server.ask("POST", INFER, body, headers, connection)
            assert status == 200 and known.check(read_outputs(answer_headers, answer)["output"], indices)
        assert connection.sock.version() == {ssl.TLSVersion.TLSv1_2: "TLSv1.2"}.get(version, "TLSv1.3")
        connection.close()


def check_curl(server, identities):
    url = f"https://127.0.0.1:{server.port}/v2/health/live"
    assert run("curl", "-sS", "--cacert", identities.root, url) == '{"live": true}'
    # Whoever does not trust the root does not talk to the server.
    assert subprocess.run(["curl", "-sS", url], capture_output=True, check=False).returncode == 60


def check_old(server, identities):
    """TLS 1.1 is not spoken."""
    context = trusting(identities)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
        try:
            context.wrap_socket(plain, server_hostname="127.0.0.1")
        except ssl.SSLError as error:
            assert "PROTOCOL_VERSION" in str(error).upper(), error
        else:
            raise AssertionError("expected a handshake of TLS 1.1 to fail")


def read_all(plain):
    received = b""
    try:
        while part := plain.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def check_other_clients(server):
    """Who speaks in the clear is told so; who speaks nonsense is closed; who says nothing, or half, has one second."""
    for request in (b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n", b"POST " + INFER.encode() + b" HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
            plain.sendall(request)
            answer = read_all(plain)
        assert answer.startswith(b"HTTP/1.1 400 ") and b"the server expects TLS; ask it by https://" in answer, answer
    for nonsense in (b"\0" * 100, b"\x16\x03\x01\x00\x05hello", os.urandom(300)):
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
            plain.sendall(nonsense)
            assert b"HTTP/1.1 200" not in read_all(plain)
    for beginning in (b"", b"\x16\x03\x01\x02\x00\x01"):
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
            plain.sendall(beginning)
            assert read_all(plain) == b""
        assert 0.8 < time.monotonic() - begin < 20


def check_refused(server, identities):
    """A large body that nobody wants: the answer is whole, and TLS says that nothing was cut off."""
    context = trusting(identities)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain, \
            context.wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as secure:
        secure.sendall(f"POST {INFER} HTTP/1.1\r\nHost: x\r\nInference-Header-Content-Length: 0\r\n"
                       "Content-Length: 30000000\r\n\r\n".encode())
        answer = b""
        while part := secure.recv(65536):
            answer += part
        assert answer.startswith(b"HTTP/1.1 503 ") and answer.endswith(b'try again later"}'), answer


def check_gone(server, known, identities):
    """Clients that go away before their answers, in order or not, leave nothing behind."""
    body, headers = binary_request(known.inputs[[0] * 4])
    for number in range(60):
        connection = connect(server, trusting(identities))
        connection.request("POST", INFER, body, headers)
        if number % 2:
            connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
    label = 'nv_inference_pending_request_count{model="lenet",version="1"} 0'
    connection = connect(server, trusting(identities))
    for _ in range(600):
        if label in server.ask("GET", "/metrics", connection=connection)[2].decode():
            connection.close()
            return
        time.sleep(0.1)
    raise AssertionError("expected nothing to wait after its clients had gone")


def check_load(server, identities):
    command = [program("cleave-run"), "load", f"https://127.0.0.1:{server.port}", "--model", "lenet", "--seconds", "1",
               "--clients", "4"]
    report = identities.path("load.json")
    run(*command, "--ca", identities.root, "--json", report)
    with open(report, encoding="utf-8") as file:
        result = json.load(file)
    assert result["broken"] == 0 and list(result["statuses"]) == ["200"] and result["answers"] > 10, result
    elsewhere = [*command[:2], f"https://localhost:{server.port}", *command[3:]]
    plain = [*command[:2], f"http://127.0.0.1:{server.port}", *command[3:]]
    for words, code, message in (
            (command, 1, "certificate verify failed"),
            ([*elsewhere, "--ca", identities.root], 1, "certificate verify failed"),
            ([*command, "--ca", "/nowhere.pem"], 1, '--ca expects a PEM file with certificates, got "/nowhere.pem"'),
            ([*plain, "--ca", identities.root], 2, "--ca expects a server at https://"),
            (plain, 1, "the server expects TLS; ask it by https://")):
        expect_line(subprocess.run(words, capture_output=True, text=True, check=False, timeout=60), code, message)


def expect_line(done, code, message):
    lines = done.stderr.splitlines()
    assert done.returncode == code and len(lines) == 1 and message in lines[0], done


def check_files(known, identities):
    """One line that names the file, and no port."""
    command = [program("cleave-run"), "serve", known.plan, "--http", "0"]
    other, locked, empty = identities.path("root.key"), identities.path("locked.key"), identities.path("empty")
    run("openssl", "ec", "-in", identities.key, "-aes256", "-passout", "pass:secret", "-out", locked)
    with open(empty, "w", encoding="utf-8"):
        pass
    for code, certificate, key, message in (
            (2, identities.certificate, None, "--tls-certificate and --tls-key expect each other, got --tls-certificate"),
            (2, None, identities.key, "--tls-certificate and --tls-key expect each other, got --tls-key alone"),
            (1, "/nowhere.pem", identities.key, '--tls-certificate expects a PEM file with the server\'s certificate, got '
             '"/nowhere.pem": No such file'),
            (1, identities.certificate, "/nowhere.pem", '--tls-key expects a PEM file with the certificate\'s private key, '
             'got "/nowhere.pem": No such file'),
            (1, identities.folder, identities.key, f'got "{identities.folder}": Is a directory'),
            (1, identities.key, identities.key, f'got "{identities.key}" with none that can be read'),
            (1, empty, identities.key, f'got "{empty}" with none that can be read'),
            (1, identities.certificate, identities.certificate, "--tls-key expects a PEM file with a private key without a "
             f'passphrase, got "{identities.certificate}"'),
            (1, identities.certificate, locked, f'without a passphrase, got "{locked}"'),
            (1, identities.certificate, other, f'--tls-key expects the key of the certificate in "{identities.certificate}", '
             f'got the one of another in "{other}"')):
        flags = (["--tls-certificate", certificate] if certificate else []) + (["--tls-key", key] if key else [])
        done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False, timeout=60)
        expect_line(done, code, message)
        assert "serving" not in done.stdout
    # Dates are for clients to judge.
    for name, begin, end, message in (("old.pem", "20200101000000Z", "20200102000000Z", "expired at Jan  2 00:00:00 2020"),
                                      ("new.pem", "20480101000000Z", "20490102000000Z", "is valid from Jan  1 00:00:00")):
        file = identities.dated(name, begin, end)
        with Server(known.plan, "--tls-certificate", file, "--tls-key", identities.key) as server:
            assert server.stop() == 0
            lines = server.error_text().splitlines()
            assert len(lines) == 1 and lines[0].startswith("warning: ") and message in lines[0] and file in lines[0], lines


def check_grpc(known, identities):
    """The same files are gRPC's."""
    if not os.path.exists(os.path.join(os.path.dirname(program()), "cleave-grpc.so")):
        return
    from serve_grpc import NODE, OK, UNAVAILABLE, Client, infer_request, raw_output
    if not os.path.exists(os.path.join(NODE, "node_modules/@grpc/grpc-js")):
        return
    with Server(known.plan, *identities.flags, "--grpc", "0") as server:
        with Client(server, authorities=identities.root) as client:
            code, body = client.call("ModelInfer", infer_request(known.inputs[:3]))
            assert code == OK and known.check(raw_output(body), range(3)), body
        with Client(server) as client:
            code, text = client.call("ServerLive", deadline=10000)
            assert code == UNAVAILABLE, (code, text)
        assert server.stop() == 0, server.error_text()


def shown(port, identities):
    """The certificate that a new connection is shown, checked against the root."""
    context = trusting(identities)
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            return secure.getpeercert()["serialNumber"]


def await_line(server, line):
    """Lines that a server says while it runs."""
    said = ""
    while said.strip() != line:
        try:
            said = server.said.get(timeout=60)
        except queue.Empty:
            raise AssertionError(f"expected {line}, got nothing for 60 s: {server.error_text()}") from None


def check_renewed(known, identities):
    """New files are taken while the server runs; connections go on, and files that are none change nothing."""
    replaced = {name: identities.path("own." + name) for name in ("certificate", "key")}

    def put(certificate, key):
        for name, source in (("certificate", certificate), ("key", key)):
            shutil.copy(source, replaced[name] + ".new")
            os.replace(replaced[name] + ".new", replaced[name])

    put(identities.certificate, identities.key)
    has_grpc = os.path.exists(os.path.join(os.path.dirname(program()), "cleave-grpc.so"))
    with Server(known.plan, "--tls-certificate", replaced["certificate"], "--tls-key", replaced["key"],
                *(["--grpc", "0"] if has_grpc else [])) as server:
        ports = [server.port, server.grpc_port] if has_grpc else [server.port]
        idle = connect(server, trusting(identities))
        assert server.ask("GET", "/v2", connection=idle)[0] == 200
        first = {shown(port, identities) for port in ports}
        assert len(first) == 1
        with open(replaced["key"], "w", encoding="utf-8") as file:
            file.write("nothing\n")
        limit = time.monotonic() + 30
        while "warning: the certificate stays as it was: --tls-key expects" not in server.error_text():
            assert time.monotonic() < limit
            time.sleep(0.1)
        # Longer than gRPC takes to look.
        time.sleep(2.5)
        assert {shown(port, identities) for port in ports} == first
        renewed = identities.signed("renewed", "root", "subjectAltName=IP:127.0.0.1")
        put(renewed, identities.path("renewed.key"))
        await_line(server, f"the certificate is now that in {replaced['certificate']}")
        limit = time.monotonic() + 30
        while True:
            second = {shown(port, identities) for port in ports}
            if len(second) == 1 and second != first:
                break
            assert time.monotonic() < limit, (first, second)
            time.sleep(0.1)
        assert server.ask("GET", "/v2", connection=idle)[0] == 200
        idle.close()
        assert server.stop() == 0, server.error_text()


def main():
    with tempfile.TemporaryDirectory() as folder:
        known, identities = KnownModel(folder), Identities(folder)
        check_files(known, identities)
        check_grpc(known, identities)
        check_renewed(known, identities)
        with Server(known.plan, *identities.flags, "--header-timeout", "1", "--queue-limit", "1000") as server:
            assert server.scheme == "https"
            check_curl(server, identities)
            check_answers(server, known, identities)
            check_old(server, identities)
            check_other_clients(server)
            check_refused(server, identities)
            check_gone(server, known, identities)
            check_load(server, identities)
            # An idle connection ends with the server.
            idle = connect(server, trusting(identities))
            assert server.ask("GET", "/v2", connection=idle)[0] == 200
            assert server.stop() == 0, server.error_text()
            idle.close()


main()
