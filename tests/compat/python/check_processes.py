"""Proves how whole processes behave: those that fail, one with two versions of the library, and one
in which another thread than the first one runs Python."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import unittest

import rondo
from check_calls import DEADLINE, program


class Exceptions(unittest.TestCase):
    def test_a_process_that_raises_is_named_by_the_others(self):
        output, status = program("""
            import subprocess, sys
            code = '''if True:
                import sys, numpy as np, rondo
                comm = rondo.init(rank=1, size=2, unique_id=sys.stdin.buffer.read())
                comm.all_reduce(np.ones(1))
                future = comm.recv_async(np.ones(1), 0)  # still in flight when the process ends
                raise KeyError("no such row")
                '''
            name = rondo.unique_id()
            other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=False)
            other.stdin.write(name)
            other.stdin.close()
            comm = rondo.init(rank=0, size=2, unique_id=name, timeout=20)
            try:
                for _ in range(2):  # the first one may still be ending when rank 1 fails
                    comm.all_reduce(np.ones(1))
            except rondo.Error as error:
                print(error.code, error.culprit)
            told = other.stderr.read().decode()
            print(other.wait(), told.splitlines()[-1])
            """)
        self.assertRegex(output, "^aborted 1\n1 KeyError: 'no such row'\n$")
        self.assertEqual(status, 0)


class Versions(unittest.TestCase):
    """A program may get a second librondo with a package that was built with another version."""

    def setUp(self):
        """The package again, as another version: libraries with another soname and domain."""
        output, _ = program("""
            import os, rondo._rondo
            print(*{line.split()[-1] for line in open("/proc/self/maps") if "/librondo.so" in line})
            print(rondo._rondo.__file__, os.path.dirname(rondo.__file__), sep="\\n")
            """)
        library, module, package = map(pathlib.Path, output.splitlines())
        nccl = library.parent / "rondo/libnccl.so.2"
        if not nccl.exists():
            self.skipTest("libnccl.so.2 is not built")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        own = self.folder / "rondo"
        own.mkdir()
        for file in package.glob("*.py"):
            shutil.copy(file, own)
        (own / "lib").mkdir()
        version = rondo.__version__
        soname = "librondo.so." + version.rpartition(".")[0]
        edits = {soname: "librondo.so.9.9", "rondo_" + version.replace(".", "_"): "rondo_9_9_9"}
        for file, copy in ((library, "lib/librondo.so.9.9"), (nccl, "lib/libnccl.so.2"),
                           (module, module.name)):
            content = file.read_bytes()
            for old, new in edits.items():
                self.assertEqual(len(old), len(new))
                content = content.replace(old.encode() + b"\0", new.encode() + b"\0")
            (own / copy).write_bytes(content)

    def run_with_both(self, text):
        return program(f"import sys; folder = {str(self.folder)!r}\n" + textwrap.dedent(text),
                       env={**os.environ, "RONDO_DEVICE": "-1"})

    def test_two_versions_of_the_library_work_in_one_process(self):
        output, status = self.run_with_both("""
            import ctypes, os
            first, second = rondo.threads(2)
            ctypes.CDLL(f"{folder}/rondo/lib/librondo.so.9.9", mode=ctypes.RTLD_GLOBAL)
            nccl = ctypes.CDLL(f"{folder}/rondo/lib/libnccl.so.2")
            FLOAT, SUM, RANKS = 7, 0, 2
            comms = (ctypes.c_void_p * RANKS)()
            status = [nccl.ncclCommInitAll(comms, RANKS, None)]
            for step in range(3):
                arrays = [np.full(100_000, rank + 1, "f4") for rank in range(RANKS)]
                future = first.all_reduce_async(np.ones(100_000))
                status.append(nccl.ncclGroupStart())
                for comm, a in zip(comms, arrays):
                    where = ctypes.c_void_p(a.ctypes.data)
                    status.append(nccl.ncclAllReduce(where, where, ctypes.c_size_t(a.size), FLOAT,
                                                     SUM, ctypes.c_void_p(comm), None))
                status.append(nccl.ncclGroupEnd())
                second.all_reduce(np.ones(100_000))
                print(future.result().tolist()[-1], arrays[1].tolist()[-1], set(status))
            loaded = {line.split()[-1] for line in open("/proc/self/maps")
                      if "/librondo.so" in line}
            print(len(loaded), "libraries", flush=True)
            child = os.fork()
            if child == 0:
                os._exit(0)
            print(os.waitpid(child, 0)[1])
            """)
        self.assertEqual((output, status),
                         ("2.0 3.0 {0}\n" * 3 + "2 libraries\n0\n", 0))

    def test_a_program_may_import_two_versions(self):
        output, status = self.run_with_both("""
            import ctypes
            old = rondo
            for name in [name for name in sys.modules if name.partition(".")[0] == "rondo"]:
                del sys.modules[name]
            sys.path.insert(0, folder)
            ctypes.CDLL(f"{folder}/rondo/lib/librondo.so.9.9")
            import rondo
            print(rondo.__file__.startswith(folder), rondo.Communicator is old.Communicator)
            for both in ((old, rondo), (rondo, old)):
                comms = [comm for one in both for comm in one.threads(2)]
                futures = [comm.all_reduce_async(np.ones(3)) for comm in comms]
                print(*(future.result().tolist()[2] for future in futures))
                for one, comm in zip(both, comms[::2]):
                    try:
                        comm.all_reduce(7)
                    except one.ArgumentError as error:
                        print(error)
            """)
        lines = output.splitlines()
        self.assertEqual((lines[:1], status), (["True False"], 0), output)
        self.assertEqual(len(lines), 7, output)
        for first in (1, 4):
            self.assertEqual(lines[first], "2.0 2.0 2.0 2.0")
            for line in lines[first + 1:first + 3]:
                self.assertIn("all_reduce: a is no array", line)


class Embedding(unittest.TestCase):
    HOST = r"""
        #include <pthread.h>
        #include <stdlib.h>
        int Py_BytesMain(int, char **);
        static int count;
        static char **arguments;
        static void *python(void *none) {
          exit(Py_BytesMain(count, arguments));
          return none;
        }
        int main(int argc, char **argv) {
          pthread_t thread;
          count = argc, arguments = argv;
          return pthread_create(&thread, NULL, python, NULL) || pthread_join(thread, NULL);
        }
        """

    def test_python_may_run_on_another_thread_than_the_first(self):
        """Ctrl-C ends a blocking call, and the process ends."""
        have = sysconfig.get_config_var
        compiler = shutil.which("cc")
        if not compiler or not list(pathlib.Path(have("LIBDIR")).glob(f"{have('LDLIBRARY')}*")):
            self.skipTest("there is no C compiler, or no library of this Python")
        with tempfile.TemporaryDirectory() as folder:
            host = pathlib.Path(folder) / "host"
            subprocess.run([compiler, "-xc", "-", "-o", host, f"-L{have('LIBDIR')}",
                            f"-Wl,-rpath,{have('LIBDIR')}", f"-lpython{have('VERSION')}",
                            *(have("LIBS") + " " + have("SYSLIBS")).split(), "-lpthread",
                            *have("LINKFORSHARED").split()],
                           input=self.HOST, text=True, check=True)
            ended = subprocess.run(
                [host, "-c", textwrap.dedent("""
                    import os, signal, threading
                    import rondo
                    first, second = rondo.threads(2)
                    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                    try:
                        first.barrier()
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                    """)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=DEADLINE, check=False,
                env={**os.environ, "PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}",
                     "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
        self.assertEqual((ended.stdout, ended.returncode), ("interrupted\n", 0))


if __name__ == "__main__":
    unittest.main()
