"""Files encrypted with age: what one implementation writes the other reads, and neither reads what is damaged."""

import argparse
import os
import random
import subprocess
import sys
import unittest

try:
    import pyrage
except ImportError:
    print("skipped: pyrage is not installed; ./dev setup brings it")
    sys.exit(77)

CHUNK = 64 * 1024
SIZES = [0, 1, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 5 * CHUNK + 77]


class Age(unittest.TestCase):
    tool = ""

    def ours(self, *arguments, text=b""):
        return subprocess.run([self.tool, *arguments], input=text, capture_output=True, timeout=60)

    def encrypt(self, text, *recipients):
        done = self.ours("encrypt", *recipients, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_reads_what_we_write(self):
        identities = [pyrage.x25519.Identity.generate() for _ in range(3)]
        for size in SIZES:
            text = os.urandom(size)
            file = self.encrypt(text, *(str(i.to_public()) for i in identities))
            for identity in identities:
                self.assertEqual(pyrage.decrypt(file, [identity]), text, size)

    def test_we_read_what_it_writes(self):
        identities = [pyrage.x25519.Identity.generate() for _ in range(3)]
        for size in SIZES:
            text = os.urandom(size)
            file = pyrage.encrypt(text, [i.to_public() for i in identities])
            for identity in identities:
                done = self.ours("decrypt", str(identity), text=file)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, text, size)

    def test_takes_our_keys(self):
        secret, recipient = self.ours("keygen").stdout.decode().split()
        identity = pyrage.x25519.Identity.from_str(secret)
        self.assertEqual(str(identity.to_public()), recipient)

    def test_both_refuse_another_key(self):
        identity, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
        file = self.encrypt(b"text", str(identity.to_public()))
        self.assertRaises(pyrage.DecryptError, pyrage.decrypt, file, [other])
        self.assertEqual(self.ours("decrypt", str(other), text=file).returncode, 1)

    def test_both_refuse_damage(self):
        chance = random.Random(1)
        identity = pyrage.x25519.Identity.generate()
        whole = pyrage.encrypt(bytes(CHUNK + 5), [identity.to_public()])
        for _ in range(50):
            # The heads are short beside the payload, but have more ways to go wrong.
            at = chance.randrange(300 if chance.random() < 0.5 else len(whole))
            flipped = bytes([*whole[:at], whole[at] ^ 1 << chance.randrange(8), *whole[at + 1 :]])
            for file in (flipped, whole[:at], whole + whole[at:]):
                self.assertRaises(pyrage.DecryptError, pyrage.decrypt, file, [identity])
                self.assertEqual(self.ours("decrypt", str(identity), text=file).returncode, 1, at)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--age-tool", required=True)
    arguments, rest = parser.parse_known_args()
    Age.tool = arguments.age_tool
    unittest.main(argv=[sys.argv[0], *rest])
