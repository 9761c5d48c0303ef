"""What the benches stand on: throwaway servers, client sessions, the exporter, terminals, and what a process costs."""

import concurrent.futures
import fcntl
import os
import pathlib
import pty
import pwd
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A build of the benches leaves a program there that has the features of what only tests need: a copy is measured.
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/pglockwatch"
PROGRAM = BUILT.with_name("pglockwatch-measured")

# Bundles of authorities that somebody has set for other programs: nothing here speaks TLS.
for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
    os.environ.pop(name, None)


def note(text):
    print(text, file=sys.stderr, flush=True)


def run(*words, **options):
    return subprocess.run(words, check=True, text=True, capture_output=True, **options).stdout


def cpu(pid):
    """Seconds of CPU of a process, of threads that have ended too. What `stat` counts are ticks: too coarse for work
    that begins by the clock. The number is that of the clock in the kernel's interface (clock_getcpuclockid(3))."""
    return time.clock_gettime((~pid << 3) | 2)


def resident(pid, what="VmRSS"):
    """Megabytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(what + r":\s+(\d+)", status)[1]) / 1024


def threads(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Session:
    """A client session in the simple query protocol: thousands of them cost this process nothing but sockets."""

    def __init__(self, port, application="load", user="postgres"):
        self.socket = socket.create_connection(("127.0.0.1", port))
        words = ["user", user, "database", "postgres", "application_name", application]
        body = struct.pack("!i", 196608) + b"".join(word.encode() + b"\0" for word in words) + b"\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.pid = None
        self.until_ready()

    def read(self, count):
        parts = b""
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                raise ConnectionError("the server hung up")
            parts += part
        return parts

    def until_ready(self):
        rows = []
        while True:
            kind, length = struct.unpack("!ci", self.read(5))
            body = self.read(length - 4)
            if kind == b"K":
                self.pid = struct.unpack("!i", body[:4])[0]
            elif kind == b"D" and struct.unpack("!h", body[:2])[0]:
                size = struct.unpack("!i", body[2:6])[0]
                rows.append(body[6:6 + size].decode() if size >= 0 else None)
            elif kind == b"E":
                raise RuntimeError(body.decode(errors="replace"))
            elif kind == b"Z":
                return rows

    def send(self, sql):
        body = sql.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!i", len(body) + 4) + body)

    def sql(self, sql):
        self.send(sql)
        return self.until_ready()

    def close(self):
        self.socket.close()


class Cluster:
    """A throwaway server; gone at the end. Its programs are in `server`, else in the usual folder."""

    def __init__(self, server=None, **settings):
        binaries = server or server_folder()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pglockwatch-bench-"))
        self.user = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
            self.user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        data = self.folder / "data"
        run(f"{binaries}/initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", cwd="/", **self.user)
        self.port = free_port()
        settings = {
            "port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off",
            "max_connections": 1700, "max_locks_per_transaction": 256, "deadlock_timeout": "60s",
            "autovacuum": "off", **settings,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            [f"{binaries}/postgres", "-D", data, *words], stdout=log, stderr=log, cwd="/", **self.user)
        for _ in range(600):
            try:
                Session(self.port).close()
                return
            except (OSError, RuntimeError):
                time.sleep(0.1)
        raise SystemExit("the server does not start: " + (self.folder / "log").read_text())

    def dsn(self, user="postgres"):
        return f"host=127.0.0.1 port={self.port} user={user} dbname=postgres"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def server_folder():
    """The newest server here, or the one in PGLOCKWATCH_BENCH_SERVER."""
    if chosen := os.environ.get("PGLOCKWATCH_BENCH_SERVER"):
        return pathlib.Path(chosen)
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if shutil.which("initdb"):
        return pathlib.Path(shutil.which("initdb")).parent
    raise SystemExit("no PostgreSQL server programs (initdb, postgres) here")


def server_version(server=None):
    return run((server or server_folder()) / "postgres", "--version").split()[2]


def connect(cluster, count, application="worker-{}", before=""):
    sessions = []
    for number in range(count):
        session = Session(cluster.port, application.format(number % 40))
        if before:
            session.sql(before.format(number=number))
        sessions.append(session)
    return sessions


class Exporter:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [PROGRAM, "exporter", "--web.listen-address=127.0.0.1:0", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"addresses=127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        self.drain = concurrent.futures.ThreadPoolExecutor(1)
        self.drain.submit(lambda: [None for _ in self.process.stderr])
        while b" 200 " not in get(self.port, "/-/ready")[:20]:
            time.sleep(0.1)
        self.pid = self.process.pid

    def values(self, name):
        page = get(self.port, "/metrics").decode()
        return {labels: float(value) for labels, value in re.findall(rf"^{name}(\{{.*\}})? (\S+)$", page, re.M)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def get(port, path):
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        parts = []
        while part := stream.recv(1 << 16):
            parts.append(part)
        return b"".join(parts)


def timed(*words, rounds):
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took)


def percentile(numbers, which):
    return sorted(numbers)[min(len(numbers) - 1, len(numbers) * which // 100)]


def fork_terminal(words):
    """Starts a program on a terminal of its own, of 200 by 60."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 200, 0, 0))
        os.environ["TERM"] = "xterm-256color"
        os.execvp(words[0], [str(word) for word in words])
    return pid, terminal


def on_terminal(words, written=None):
    """The same; what it writes is read, and kept in that list if there is one."""
    pid, terminal = fork_terminal(words)
    reader = concurrent.futures.ThreadPoolExecutor(1)

    def drain():
        while True:
            try:
                part = os.read(terminal, 1 << 16)
                if not part:
                    return
                if written is not None:
                    written.append(part)
            except OSError:
                return
    reader.submit(drain)
    return pid


def end(pid):
    os.kill(pid, signal.SIGTERM)
    for _ in range(50):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def section(title, text, head, rows):
    lines = [f"## {title}", "", text, "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
