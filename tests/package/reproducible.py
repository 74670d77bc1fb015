"""Objects of QRL_REPRODUCIBLE are the same bytes in two folders: of a source that names its file, and of a kernel in an unnamed
namespace. scripts/accept/check_wheel compares whole wheels."""
import re
import shutil
import subprocess
import unittest

from support import BUILD, DEPS, ROOT, require, variables, work

SOURCE, KERNEL = "src/quant/fp8.cpp", "cuda/attention/kv_percentile.cu"
PROBES = {SOURCE: "const char* name_of_file() { return __FILE__; }\n",
          KERNEL: "namespace { template <int N> __global__ void add(float* x) { x[threadIdx.x] += N; } }\n"
                  "void launch(float* x) { add<2><<<1, 32>>>(x); }\n"}
PARTS = ("CMakeLists.txt", "apps", "cuda", "mpi", "parquet", "src", "third_party")
OBJECTS = {SOURCE: "src/CMakeFiles/qrl_quant.dir/quant/fp8.cpp.o", KERNEL: "cuda/kv_percentile.o"}


def has_cuda():
    return bool(list(BUILD.glob("cuda/*.o")))


class Reproducible(unittest.TestCase):
    def build(self, folder, *settings, **environment):
        """Returns the stripped objects of the probes, compiled by the rules of a copy of the checkout, and how the program is linked."""
        folder.mkdir(parents=True)
        for part in PARTS:
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, folder / part)
        (folder / ".deps").symlink_to(DEPS.resolve())
        for file, text in PROBES.items():
            (folder / file).write_text(text)
        require("cmake", "-S", folder, "-B", folder / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQRL_TESTS=OFF", "-DQRL_MPI=off",
                f"-DQRL_CUDA={'on' if has_cuda() else 'off'}", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", *settings)  # one object a file
        objects = [file for source, file in OBJECTS.items() if source != KERNEL or has_cuda()]
        require("ninja", "-C", folder / "build", *objects, env=variables(**environment))
        for file in objects:
            require("strip", "--strip-unneeded", folder / "build" / file)
        linked = subprocess.run(["ninja", "-C", folder / "build", "-t", "commands", "qrl-train"], capture_output=True, text=True, check=True).stdout
        return {file: (folder / "build" / file).read_bytes() for file in objects}, re.findall(r"--build-id=\w+|-rpath(?=,)", linked.splitlines()[-1])

    def test_two_folders_compile_the_same_bytes(self):
        uncached = {"CCACHE_DISABLE": "1"}
        first, linked = self.build(work / "first", "-DQRL_REPRODUCIBLE=ON", **uncached)
        self.assertEqual(linked, ["--build-id=none"])  # an rpath of the folder would leave zeros in the installed file
        self.assertRegex(first[OBJECTS[SOURCE]], b"[^/]src/quant/fp8.cpp\0")
        # ccache with a base_dir compiles by paths that are relative to the build folder.
        relative = {"CCACHE_DIR": str(work / "ccache"), "CCACHE_BASEDIR": str(work), "CCACHE_NOHASHDIR": "1"}
        for name, environment in (("second/deeper", uncached), ("third", relative if shutil.which("ccache") else uncached)):
            self.assertEqual(self.build(work / name, "-DQRL_REPRODUCIBLE=ON", **environment)[0], first)
        plain, linked = self.build(work / "plain", **uncached)
        self.assertEqual(linked, ["-rpath"])
        for file, data in plain.items():  # what is compared does depend on the folder without the option
            self.assertNotEqual(data, first[file])
