#!/usr/bin/env python3
"""Runs the commands of README.md in the order in which they are written, with small sizes, and
checks what all pages name: commands, options, settings, targets.

usage: readme_test.py SOURCE BUILD [PYTHON]

The blocks of README.md that are marked as sh are run, in a folder that looks like a fresh checkout:
its build/ has at each point only what the commands before it build. So a step that needs something
that comes later fails. tools/quickstart, tools/test and cmake are not run again: they provide from
BUILD what they make. tools/package is not run. PYTHON is one with torch; without it the steps of
PyTorch are left out, as are those of MPI and NCCL if BUILD has no library for them. That is
printed.

At the end, mistakes are planted in the pages, and each must be found.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TOPS = ("include", "src", "kernels", "transports", "tools", "bench", "tests")
LINES = 150  # of README.md
LIMIT_S = 120  # of one command
BUILD_LIMIT_S = 1000  # of building the package of PyTorch, beside other tests
# What makes commands short: (what is written, what is run).
SMALL = [(r"-p 4 -b 8 -e \d+M", "-p 2 -b 1K -e 4K -n 2"), (r"--epochs \d+", "--steps 3"),
         (r"-p 1-16", "-p 1-4"),
         (r"(rondo train .*)", r"\1 --data synthetic:shape=1x28x28,train=512,test=64")]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
# The start of a command in a page: a program of the tree.
PROGRAM = re.compile(r"(?:^|(?<=\s)|(?<=[|;&(]))"
                     r"(?:build/bin/)?(rondo|(?:tools|bench)/[\w/]+)(?=\s|$)")
SETTING = re.compile(r"\bRONDO_[A-Z][A-Z_0-9]*\b")
TARGET = re.compile(r"--target ([\w ]+)|build/(?:bin|tests|lib)/([\w./-]+)")


def pages_of(source):
    return {str(file.relative_to(source)): file.read_text(encoding="utf-8")
            for file in [source / "README.md",
                         *(file for top in TOPS
                           for file in sorted((source / top).rglob("*.md")))] if file.is_file()}


def blocks(page, language):
    return [text for kind, text in FENCE.findall(page) if kind == language]


def without_remark(line):
    return re.sub(r"\s+#\s.*", "", line).strip()


def lines_of_commands(page):
    """Every line of a page that may hold a command: of its blocks of code, and in `code`."""
    prose = FENCE.sub("", page)
    code = [line for _, text in FENCE.findall(page) for line in text.splitlines()]
    code += [line for line in prose.splitlines() if line.startswith("    ")]
    spans = [" ".join(span.split()) for span in
             SPAN.findall(re.sub(r"^    .*", "", prose, flags=re.MULTILINE))]
    return [without_remark(line) for line in [*code, *spans]]


class Checkout:
    """A folder like a fresh checkout, whose build/ fills as commands are run."""

    def __init__(self, source, build, folder, python):
        self.source, self.build, self.folder, self.python = source, build, folder, python
        self.assignments, self.left_out = [], []
        for name in (*TOPS, "CMakeLists.txt", "CMakePresets.json"):
            (folder / name).symlink_to(source / name)
        (folder / "build").mkdir()

    def provide(self, targets):
        """What building these targets makes; None: everything."""
        made = {"rondo_cli": ["bin/rondo"], "rondo_shared": ["lib/librondo.so"]}
        if targets is not None:
            names = [name for target in targets for name in made.get(target, [])]
        else:
            names = ["bin", "lib", "tests"]
        for name in names:
            if (self.build / name).exists():
                place = self.folder / "build" / name
                if targets is None and place.is_dir():
                    shutil.rmtree(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    place.symlink_to(self.build / name)

    def stand_in(self, command):
        """The command with a program of ours for `your-...`; None if there is none here."""
        if "./your-mpi-program" in command:
            compiler = shutil.which("mpicc.openmpi")
            if not compiler or not (self.build / "lib/librondo_mpi.so").exists():
                return None
            subprocess.run([compiler, self.source / "bench/peers/mpi_bench.c", "-o",
                            self.folder / "your-mpi-program"], check=True)
            return command.replace("mpirun", "mpirun.openmpi --oversubscribe").replace(
                "./your-mpi-program", "./your-mpi-program allreduce 1024")
        if "./your-nccl-program" in command:
            program = self.build / "tests/compat/nccl/own/grid"
            return command.replace("./your-nccl-program", f"{program} one 2 997") \
                if program.exists() else None
        if command.startswith("pip install") or " pip " in command:
            if not self.python or command.startswith("pip"):
                return None  # what is on the machine already is not installed again
            package = self.folder / "copy/src/compat/torch"  # pip writes beside what it builds
            shutil.copytree(self.source / "src/compat/torch", package)
            (self.folder / "copy/include").symlink_to(self.source / "include")
            command = command.replace("./src/", "./copy/src/").replace(
                " pip ", f" {self.python} -m pip ")
            return command + " --no-deps --target py"
        return command

    def run(self, command):
        """Empty, or what went wrong."""
        if command.startswith("tools/test"):
            return self.start("tools/test --help")
        if command.startswith("tools/package"):
            return self.start("tools/package --help")
        if command.startswith("tools/quickstart"):
            text = (self.source / "tools/quickstart").read_text(encoding="utf-8")
            found = re.findall(r"^\s*cmake --build .*--target (.*)$", text, re.MULTILINE)
            self.provide(" ".join(found).split() if found else None)
            return self.start("tools/quickstart --help")
        if command.startswith("cmake --preset"):
            self.provide(None)
            return self.start("cmake --list-presets | grep -q '\"release\"'")
        if re.match(r"\w+=\S*\"", command):
            self.assignments.append(command)
            return ""
        for written, small in SMALL:
            command = re.sub(written, small, command)
        runnable = self.stand_in(command)
        if runnable is None:
            self.left_out.append(command)
            return ""
        return self.start(runnable)

    def start(self, command):
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "RONDO_HEARTBEAT": "10",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        script = "\n".join(["set -e", *self.assignments, command])
        limit = BUILD_LIMIT_S if " pip " in command else LIMIT_S
        try:
            done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=environment,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return f"{command}: not done after {limit} s"
        return f"{command}: status {done.returncode}\n{done.stdout}" if done.returncode else ""


def run_commands(page, source, build, python):
    """(what went wrong with the first command that fails, what was left out)"""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Checkout(source, build, pathlib.Path(folder), python)
        for block in blocks(page, "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                if command := without_remark(line):
                    if failure := checkout.run(command):
                        return failure, checkout.left_out
        if python and (checkout.folder / "py").exists():
            script = "\n".join(blocks(page, "python"))
            os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                              MASTER_PORT="29507", PYTHONPATH="py")
            (checkout.folder / "script.py").write_text(script)
            return checkout.start(f"{python} script.py"), checkout.left_out
        return "", checkout.left_out


class Known:
    """What commands, options, settings and targets there are."""

    def __init__(self, source, build):
        self.source, self.build, self.helps = source, build, {}
        targets = subprocess.run(["cmake", "--build", build, "--target", "help"], text=True,
                                 stdout=subprocess.PIPE, check=True).stdout
        self.targets = set(re.findall(r"[\w./+-]+", targets))
        for name in ("bench", "tests"):
            self.targets |= {prefix + file.stem for file in (source / name).rglob("*.cc")
                             for prefix in ("bench_", "bench_cuda_", "program_")}
        self.settings = self.words("RONDO_")

    def words(self, prefix):
        tops = [self.source / top for top in ("include", "src", "transports", "tools", "bench",
                                              "tests", "CMakeLists.txt")]
        done = subprocess.run(["grep", "-rhowE", prefix + r"\w+", "--exclude=*.md",
                               "--exclude=readme_test.py", *tops],
                              text=True, stdout=subprocess.PIPE, check=True)
        return set(done.stdout.split())

    def help_of(self, program):
        """Help and, for scripts, which may need what is not here, the text; None: there is none."""
        if program not in self.helps:
            if program.startswith("rondo"):
                words = [self.build / "bin/rondo", *program.split()[1:], "--help"]
                done = subprocess.run(words, text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, timeout=LIMIT_S, check=False)
                self.helps[program] = done.stdout if done.returncode == 0 else None
            else:
                file = self.source / program
                self.helps[program] = file.read_text(encoding="utf-8") if file.is_file() else None
        return self.helps[program]

    def faults_of_command(self, line):
        for found in PROGRAM.finditer(line):
            program, rest = found.group(1), line[found.end():]
            rest = re.split(r" -- |[|;&]", rest)[0].split()
            if program == "rondo":
                if rest and re.fullmatch(r"[a-z]+", rest[0]):
                    program += " " + rest[0]
                if rest[:2] == ["simulate", "train"]:
                    program += " train"
                if program in ("rondo help",):
                    continue
            help_text = self.help_of(program)
            if help_text is None and (self.source / program).is_dir():
                continue
            if help_text is None:
                yield f"{program}: there is no such command"
                continue
            if program == "rondo run":  # what follows the program's name is the program's
                first = next((at for at, word in enumerate(rest[1:], 1)
                              if not word.startswith("-") and not rest[at - 1].startswith("-")),
                             len(rest))
                rest = rest[:first]
            for word in rest:
                option = word.split("=")[0].strip("`,.:)")
                if re.fullmatch(r"--[a-z][\w-]*|-[A-Za-z]", option) and not re.search(
                        re.escape(option) + r"(?![\w-])", help_text):
                    yield f"{program}: --help does not know {option}"

    def faults(self, name, page):
        for line in lines_of_commands(page):
            for fault in self.faults_of_command(line):
                yield f"{name}: {line}: {fault}"
            for several, single in TARGET.findall(line):
                for target in (several or pathlib.PurePath(single).name).split():
                    there = single and any(
                        (self.build / folder / single).exists() for folder in ("bin", "tests",
                                                                               "lib"))
                    if not there and target not in self.targets and target not in (
                            "test_FOLDER", "program_NAME", "rondo"):
                        yield f"{name}: {line}: there is no target {target}"
        for setting in set(SETTING.findall(page)) - self.settings:
            yield f"{name}: there is no setting {setting}"


def planted(pages, known, source, build):
    """Mistakes of each kind must be found; what was not."""
    top = pages["README.md"]
    for text, fault in [
            ("    build/bin/rondo bench allreduce --no-such\n", "does not know --no-such"),
            ("    build/bin/rondo bench allreduce -Q 4\n", "does not know -Q"),
            ("`rondo benchmark`", "rondo benchmark: there is no such command"),
            ("    tools/no_such_tool\n", "there is no such command"),
            ("    tools/check_layers --no-such\n", "does not know --no-such"),
            ("    cmake --build build --target no_such\n", "no target no_such"),
            ("    build/tests/test_no_such\n", "no target test_no_such"),
            ("`RONDO_NO_SUCH`", "no setting RONDO_NO_SUCH")]:
        if not any(fault in found for found in known.faults("page", text)):
            yield f"not found: {text.strip()}"
    build_step = re.search(r"^```sh\ncmake --preset.*?^```$", top, re.MULTILINE | re.DOTALL)
    if not build_step or not run_commands(top.replace(build_step.group(0), ""), source, build,
                                          None)[0]:
        yield "not found: programs that are linked before the library is built"


def main():
    source, build = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    python = sys.argv[3] if len(sys.argv) > 3 else ""
    pages = pages_of(source)
    known = Known(source, build)
    failures = [fault for name, page in pages.items() for fault in known.faults(name, page)]
    lines = pages["README.md"].count("\n")
    if lines > LINES:
        failures.append(f"README.md: {lines} lines, more than {LINES}")
    picture = subprocess.run([source / "bench/peers/picture", "--check"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if picture.returncode != 0:
        failures.append(picture.stdout)
    failure, left_out = run_commands(pages["README.md"], source, build, python)
    if failure:
        failures.append("README.md: " + failure)
    failures += planted(pages, known, source, build)
    for command in left_out:
        print(f"not run here: {command}")
    print("".join(f"FAILED: {text}\n" for text in failures)
          + f"{len(pages)} pages, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
