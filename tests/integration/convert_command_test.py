"""The tinker command as a process: `tinker convert`. CTest passes the command's path in TINKER_COMMAND."""

import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("TINKER_COMMAND", str(ROOT / "build/dev/bin/tinker"))
TIMEOUT_S = 60  # of one run
OK, REFUSED, USAGE = 0, 1, 2

DIM, FFN, LAYERS, HEADS, VOCAB, CONTEXT = 8, 12, 2, 2, 20, 16


def convert(*arguments):
    return subprocess.run([COMMAND, "convert", *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S)


def llama2c_file():
    """A model with a shared head, in llama2.c's order: embedding, norms and matrices by kind, final norm, angles."""
    matrices = LAYERS * (4 * DIM * DIM + 3 * DIM * FFN)
    count = VOCAB * DIM + 2 * LAYERS * DIM + matrices + DIM + CONTEXT * DIM // HEADS
    numbers = random.Random(1)
    floats = [numbers.uniform(-1, 1) for _ in range(count)]
    return struct.pack("<7i", DIM, FFN, LAYERS, HEADS, HEADS, VOCAB, CONTEXT) + struct.pack(f"<{count}f", *floats)


def tensors_of(folder):
    """{name: (dtype, bytes)}"""
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], data[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]])
        for name, entry in header.items()
    }


class ConvertCommand(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.file = self.folder / "model.bin"
        self.file.write_bytes(llama2c_file())

    def test_llama2c(self):
        out = self.folder / "out"
        self.assertEqual(convert(self.file, out).returncode, OK)
        config = json.loads((out / "config.json").read_text())
        self.assertEqual((config["hidden_size"], config["num_hidden_layers"]), (DIM, LAYERS))
        dtype, embedding = tensors_of(out)["model.embed_tokens.weight"]
        self.assertEqual(dtype, "F32")
        begin = struct.calcsize("<7i")
        self.assertEqual(embedding, self.file.read_bytes()[begin : begin + 4 * VOCAB * DIM])

    def test_llama2c_in_half_the_size(self):
        whole, half, again = self.folder / "f32", self.folder / "bf16", self.folder / "again"
        self.assertEqual(convert(self.file, whole).returncode, OK)
        self.assertEqual(convert(self.file, half, "--precision", "bf16").returncode, OK)
        self.assertEqual(convert(whole, again, "--precision", "bf16").returncode, OK)
        self.assertEqual(tensors_of(half), tensors_of(again))
        self.assertEqual(json.loads((half / "config.json").read_text())["torch_dtype"], "bfloat16")

    def test_folder_in_another_precision(self):
        whole, half = self.folder / "f32", self.folder / "bf16"
        self.assertEqual(convert(self.file, whole).returncode, OK)
        self.assertEqual(convert(whole, half, "--precision", "bf16").returncode, OK)
        self.assertEqual(set(tensors_of(half)), set(tensors_of(whole)))
        self.assertEqual({dtype for dtype, _ in tensors_of(half).values()}, {"BF16"})

    def test_refusals_name_what_is_wrong(self):
        missing = convert(self.folder / "nothing", self.folder / "out")
        self.assertEqual(missing.returncode, REFUSED)
        self.assertIn("nothing", missing.stderr)
        cut = self.folder / "cut.bin"
        cut.write_bytes(self.file.read_bytes()[:-4])
        short = convert(cut, self.folder / "out")
        self.assertEqual(short.returncode, REFUSED)
        self.assertIn("cut.bin", short.stderr)
        self.assertFalse((self.folder / "out").exists())
        self.assertEqual(convert(self.file, self.folder / "out", "--precision", "f8").returncode, USAGE)
        self.assertEqual(convert(self.file).returncode, USAGE)

    def test_a_folder_that_holds_something_is_left_alone(self):
        made, taken = self.folder / "made", self.folder / "taken"
        self.assertEqual(convert(self.file, made).returncode, OK)
        taken.mkdir()
        (taken / "config.json").write_text("mine")
        for source in (made, self.file):
            refused = convert(source, taken)
            self.assertEqual(refused.returncode, REFUSED)
            self.assertIn("taken is there and not empty", refused.stderr)
            self.assertEqual([path.name for path in taken.iterdir()], ["config.json"])
            self.assertEqual((taken / "config.json").read_text(), "mine")

    def test_a_file_is_left_alone(self):
        letter = self.folder / "letter"
        letter.write_text("")
        refused = convert(self.file, letter)
        self.assertEqual(refused.returncode, REFUSED)
        self.assertIn("letter is there and no folder", refused.stderr)
        self.assertTrue(letter.is_file())

    def test_an_empty_folder_is_taken(self):
        out = self.folder / "out"
        out.mkdir()
        self.assertEqual(convert(self.file, out).returncode, OK)
        self.assertEqual({path.name for path in out.iterdir()}, {"config.json", "model.safetensors"})


if __name__ == "__main__":
    unittest.main()
