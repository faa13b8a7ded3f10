#!/usr/bin/env python3
"""Proves that tools/cuda_ptx accepts kernels with the memory instructions that the plan kernel's
correctness relies on, and fails if one of them is weaker, missing, non-coherent or narrower, for
local memory, and if it finds no PTX; and that it reads compressed PTX.

usage: cuda_ptx_test.py SOURCE_FOLDER
"""

import ctypes
import pathlib
import subprocess
import sys
import tempfile

# A ring's words are found by its size: one is addressed as the compiler does it in a loop, with
# the base moved, the other plainly.
PLAN = """
mul.wide.u32 %rd1, %r1, 56;
add.s64 %rd2, %rd9, %rd1;
add.s64 %rd3, %rd2, 32;
ld.u64 %rd4, [%rd3+-32];
ld.acquire.sys.b64 %rd5,[%rd4];
ld.u64 %rd6, [%rd2+24];
$L__BB0_1:
ld.acquire.sys.b64 %rd7,[%rd6];
@%p1 bra $L__BB0_1;
selp.b64 %rd34, %rd4, %rd6, %p2;
st.release.sys.b64 [%rd34],%rd8;
ld.acquire.sys.b32 %r2,[%rd20];
ld.acquire.gpu.b32 %r3,[%rd21];
fence.sc.gpu;
atom.cas.acquire.gpu.b32 %r4,[%rd21],%r5,%r6;
st.release.sys.b32 [%rd22],%r6;
ld.acquire.gpu.b64 %rd23,[%rd24];
st.release.gpu.b64 [%rd24],%rd25;
atom.add.relaxed.gpu.u64 %rd26,[%rd27],%rd28;
atom.add.relaxed.gpu.u32 %r7,[%rd29],%r8;
ld.relaxed.sys.global.v2.u64 {%rd30, %rd31}, [%rd32];
st.relaxed.sys.global.v2.u64 [%rd33], {%rd30, %rd31};
"""
WAIT, NEXT = "griddepcontrol.wait;\n", "griddepcontrol.launch_dependents;\n"
# A plan that meets has no packets.
MEET = PLAN[:PLAN.index("ld.relaxed.sys.global")] + """
fence.proxy.alias;
multimem.st.relaxed.sys.global.b64 [%rd60], %rd61;
multimem.st.release.sys.global.b64 [%rd62], %rd63;
multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%r70, %r71, %r72, %r73}, [%rd64];
multimem.st.relaxed.sys.global.v4.f32 [%rd65], {%r70, %r71, %r72, %r73};
"""
HALVES = MEET.replace("add.v4.f32", "add.acc::f32.v4.bf16x2")
MOVES = "".join(line for line in MEET.splitlines(True) if "ld_reduce" not in line)
SWITCH_PROBE = ("multimem.st.release.sys.global.b64 [%rd1], %rd2;\n"
                "multimem.ld_reduce.relaxed.sys.global.add.u64 %rd3, [%rd4];\n")
PROBE = "ld.acquire.sys.b64 %rd1,[%rd2];\nst.release.sys.b64 [%rd3],%rd1;\n"


def moving(loads):
    """The given number of loads in flight, and their stores."""
    registers = ["{" + ", ".join(f"%r{100 + 4 * n + i}" for i in range(4)) + "}"
                 for n in range(loads)]
    return ("".join(f"ld.v4.u32 {r}, [%rd50+{8192 * n}];\n" for n, r in enumerate(registers)) +
            "".join(f"st.v4.u32 [%rd51+{8192 * n}], {r};\n" for n, r in enumerate(registers)))


def entry(name, body):
    return f"\n.visible .entry {name}(\n.param .b64 {name}_param_0\n)\n{{\n{body}ret;\n}}\n"


FLOATS = "_ZN10planKernelILNS_8DataTypeE12ELNS_8ReduceOp4KindE0EEvv"
BYTES = "_ZN10planKernelILNS_8DataTypeE1ELNS_8ReduceOp4KindE0EEvv"
SUMS = "_ZN12switchKernelILNS_8DataTypeE12ELNS_8ReduceOp4KindE0EEvv"
HALF_SUMS = "_ZN12switchKernelILNS_8DataTypeE9ELNS_8ReduceOp4KindE0EEvv"
SPREAD = "_ZN12switchKernelILNS_8DataTypeE1ELNS_8ReduceOp4KindE6EEvv"
BITS = "_ZN10planKernelILNS_8DataTypeE1ELNS_8ReduceOp4KindE6EEvv"
GOOD = [(FLOATS, WAIT + PLAN + moving(4) + NEXT), (BYTES, WAIT + PLAN + moving(2) + NEXT),
        (BITS, WAIT + PLAN + moving(4) + NEXT),
        (SUMS, MEET + moving(4)), (HALF_SUMS, HALVES + moving(4)), (SPREAD, MOVES + moving(4)),
        ("_Z17switchProbeKernelv", SWITCH_PROBE),
        ("_Z15planBatchKernelv", PLAN + moving(4)), ("_Z11probeKernelv", PROBE),
        ("_Z12reduceKernelILNS_8DataTypeE12ELNS_8ReduceOp4KindE0EEvv", moving(4))]
RING = "a ring's "
# (what, of which kernel, text, in its place, words of the complaint)
MUTANTS = [
    ("a flag acquired at device scope", FLOATS, "acquire.sys.b64 %rd5", "acquire.gpu.b64 %rd5",
     RING + "published by ld.acquire.gpu.64"),
    ("credit acquired at device scope", FLOATS, "acquire.sys.b64 %rd7", "acquire.gpu.b64 %rd7",
     RING + "consumed by ld.acquire.gpu.64"),
    ("a flag read relaxed", FLOATS, "ld.acquire.sys.b64 %rd5", "ld.relaxed.sys.b64 %rd5",
     "ld.relaxed.sys.64 is not among"),
    ("a flag read plainly", FLOATS, "ld.acquire.sys.b64 %rd5", "ld.u64 %rd5",
     RING + "published by ld.64"),
    ("a flag written plainly", FLOATS, "st.release.sys.b64 [%rd34]", "st.u64 [%rd34]",
     RING + "published by st.64"),
    ("credit given back at device scope", FLOATS, "st.release.sys.b64 [%rd34]",
     "st.release.gpu.b64 [%rd34]", RING + "consumed by st.release.gpu.64"),
    ("no credit given back", FLOATS, "selp.b64 %rd34, %rd4, %rd6, %p2;", "mov.b64 %rd34, %rd4;",
     "no st.release.sys.64 of a ring's consumed"),
    ("a fence for messages and one for slots", FLOATS, "st.release.sys.b64 [%rd34],%rd8;",
     "st.release.sys.b64 [%rd4],%rd8;\nst.release.sys.b64 [%rd6],%rd8;",
     "2 instructions tell other ends"),
    ("abort looked at by the device's scope", FLOATS, "ld.acquire.sys.b32", "ld.acquire.gpu.b32",
     "no ld.acquire.sys.32"),
    ("a report told of to the device only", FLOATS, "st.release.sys.b32", "st.release.gpu.b32",
     "no st.release.sys.32"),
    ("a lane's clock of the block only", FLOATS, "ld.acquire.gpu.b64", "ld.acquire.cta.b64",
     "ld.acquire.cta.64 is not among"),
    ("a start without a wait for the kernel ahead", FLOATS, "griddepcontrol.wait;", "",
     "griddepcontrol ['launch_dependents'], not"),
    ("a wait for the kernel ahead behind an access", FLOATS, WAIT,
     "atom.add.relaxed.gpu.u64 %rd26,[%rd27],%rd28;\n" + WAIT, "before griddepcontrol.wait"),
    ("a next kernel that starts before messages have come", FLOATS, WAIT + PLAN + moving(4) + NEXT,
     WAIT + NEXT + PLAN + moving(4), "no wait for messages before"),
    ("a batch that lets the next kernel start", "_Z15planBatchKernelv", "fence.sc.gpu;",
     "fence.sc.gpu;\ngriddepcontrol.launch_dependents;", "griddepcontrol ['launch_dependents']"),
    ("a claim without its fence", FLOATS, "fence.sc.gpu;\n", "", "no fence.sc.gpu"),
    ("packets in two pieces", FLOATS, "ld.relaxed.sys.global.v2.u64 {%rd30, %rd31}",
     "ld.relaxed.sys.global.u64 %rd30", "ld.relaxed.sys.64 is not among"),
    ("packets of the device's scope", FLOATS, "st.relaxed.sys", "st.relaxed.gpu",
     "st.relaxed.gpu.2x64 is not among"),
    ("a load through the texture path", FLOATS, "ld.v4.u32 {%r100", "ld.global.nc.v4.u32 {%r100",
     "ld.nc.4x32 is not among"),
    ("a volatile load", FLOATS, "ld.v4.u32 {%r100", "ld.volatile.v4.u32 {%r100",
     "ld.volatile.4x32 is not among"),
    ("an array in local memory", FLOATS, "ret;", "st.local.u32 [%rd1], %r1;\nret;",
     "local memory"),
    ("loads of 8 bytes", FLOATS, "ld.v4.u32", "ld.v2.u32", "0 vectors in flight, not 4"),
    ("stores of 8 bytes", FLOATS, "st.v4.u32", "st.v2.u32", "no stores of 16 bytes"),
    ("three loads in flight", FLOATS, moving(4), moving(3), "3 vectors in flight, not 4"),
    ("vectors that take two loads", FLOATS, moving(4), moving(4).replace("8192", "16").replace(
        "24576", "8208").replace("16384", "8192"), "2 vectors in flight, not 4"),
    ("loads with stores between them", FLOATS, moving(4), moving(1) * 4,
     "1 vectors in flight, not 4"),
    ("one load of bytes in flight", BYTES, moving(2), moving(1), "in flight, not 2"),
    ("two loads of bits in flight", BITS, moving(4), moving(2), "in flight, not 4"),
    ("a batch's flag at device scope", "_Z15planBatchKernelv", "acquire.sys.b64 %rd5",
     "acquire.gpu.b64 %rd5", RING + "published by ld.acquire.gpu.64"),
    ("a probe by plain loads", "_Z11probeKernelv", "ld.acquire.sys.b64", "ld.u64",
     "no ld.acquire.sys.64"),
    ("a sum over all windows of the device's scope", SUMS, "ld_reduce.relaxed.sys",
     "ld_reduce.relaxed.gpu", "is no sum of a switch"),
    ("an arrival that releases nothing", SUMS, "multimem.st.release", "multimem.st.relaxed",
     "no multimem.st.release.sys.64"),
    ("no fence between a window's addresses", SUMS, "fence.proxy.alias;\n", "",
     "no fence.proxy.alias"),
    ("halves added up in 16 bits", HALF_SUMS, "acc::f32.", "", "is no sum of a switch"),
    ("bytes that are added up", SPREAD, "fence.proxy.alias;", "fence.proxy.alias;\n"
     "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%rd1];", "1 kinds of sums"),
    ("a plan kernel that reaches all windows", FLOATS, "fence.sc.gpu;", "fence.sc.gpu;\n"
     "multimem.st.relaxed.sys.global.b64 [%rd60], %rd61;", "multimem.st.relaxed.sys.64 is not"),
    ("a switch probed plainly", "_Z17switchProbeKernelv", "multimem.ld_reduce.relaxed.sys.global."
     "add.u64 %rd3", "ld.u64 %rd3", "0 kinds of sums"),
    ("a reduction that orders", GOOD[-2][0], "ret;", "fence.acq_rel.sys;\nret;",
     "fence.acq_rel.sys is not among"),
]


def compress(text):
    """A frame of zstd after a beginning of one that is none; None if there is no libzstd."""
    try:
        zstd = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    frame = ctypes.create_string_buffer(len(text) + 1024)
    zstd.ZSTD_compress.restype = ctypes.c_size_t
    size = zstd.ZSTD_compress(frame, ctypes.c_size_t(len(frame)), text, ctypes.c_size_t(len(text)),
                              19)
    return b"\x28\xb5\x2f\xfd\xff\xff" + frame.raw[:size]


def run(tool, kernels, padding=b"\0", target=90, pack=bytes):
    text = f"\n.version 9.0\n.target sm_{target}\n" + "".join(entry(*one) for one in kernels)
    with tempfile.TemporaryDirectory() as folder:
        compiled = pathlib.Path(folder) / "kernel.cu.o"
        compiled.write_bytes(b"\x7fELF\0code\0" + pack(text.encode()) + padding + b"more")
        return subprocess.run([tool, "host.cc.o", str(compiled)], capture_output=True, text=True)


def main(source):
    tool = str(pathlib.Path(source) / "tools/cuda_ptx")
    good = run(tool, GOOD)
    assert good.returncode == 0 and "3 plan: at least 2 vectors" in good.stdout, good.stdout
    for what, name, old, new, words in MUTANTS:
        kernels = [(n, body if n != name else entry_of(body, old, new)) for n, body in GOOD]
        result = run(tool, kernels)
        assert result.returncode == 1 and f"FAILED: {name}: " in result.stdout, (what, result)
        assert words in result.stdout, (what, words, result.stdout)
        print(f"ok: {what} is caught")
    early = run(tool, [(SUMS, MEET)], target=80)
    assert early.returncode == 1 and "add.relaxed.sys.4x32 before sm_90" in early.stdout, early
    empty = run(tool, [(name, "" if "switch" in name else body.replace(WAIT, "").replace(NEXT, ""))
                       for name, body in GOOD], target=80)
    assert empty.returncode == 0, empty
    print("ok: what only sm_90 has is caught in code for earlier ones")
    if compress(b""):
        packed = run(tool, GOOD, pack=compress)
        assert packed.returncode == 0 and packed.stdout == good.stdout, packed
        name, body = GOOD[0]
        wrong = run(tool, [(name, body.replace("fence.sc.gpu;\n", "")), *GOOD[1:]], pack=compress)
        assert wrong.returncode == 1 and "no fence.sc.gpu" in wrong.stdout, wrong
        print("ok: compressed PTX is read")
    unknown = run(tool, GOOD + [("_Z9newKernelv", "")])
    assert unknown.returncode == 1 and "no rules for this kernel" in unknown.stdout, unknown
    none = run(tool, [])
    assert none.returncode == 1 and "no plan kernel" in none.stdout, none
    nothing = subprocess.run([tool], capture_output=True, text=True)
    assert nothing.returncode == 77 and "no CUDA toolkit" in nothing.stdout, nothing
    print("ok: unknown kernels, none at all, and no toolkit are told apart")


def entry_of(body, old, new):
    """The mutant; "ret;" stands for the function's end."""
    if old == "ret;":
        return body + new.removesuffix("ret;")
    assert old in body, old
    return body.replace(old, new)


if __name__ == "__main__":
    main(*sys.argv[1:])
