"""Checkpoints with the official SDK: lists, lives, exports, and what one key's owner sees of another's."""

import datetime
import io
import json
import os
import pathlib
import re
import struct
import tarfile
import tempfile
import urllib.error
import urllib.request

import tinker
from batches import *
from case import *
from served import LOCAL_KEY, Served
from tinker import types

IS_NEW = tuple(map(int, tinker.__version__.split("."))) >= (0, 36)
EXPORTS = hasattr(tinker.TrainingClient, "save_weights_external")  # since 0.28
if IS_NEW:
    import pyrage
PEFT_FILES = {"adapter_config.json", "adapter_model.safetensors"}
KEYS = {"ada": "tml-the-test-key-of-ada", "bob": "tml-the-test-key-of-bob"}
HOUR = 3600
# Of a key that nobody has: the files are read by whoever has it, never here.
RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
# A refusal of the kind that clients do not repeat.
REFUSED = tinker.BadRequestError, tinker.NotFoundError, tinker.PermissionDeniedError, tinker.UnprocessableEntityError


def rest_of(service, key):
    # Clients without an address of their own share connections, also after the environment names another one.
    return tinker.RestClient(base_url=os.environ["TINKER_BASE_URL"], api_key=key) if IS_NEW else service.create_rest_client()


def fetch(url):
    return urllib.request.urlopen(url, timeout=10).read()


def seconds_left(checkpoint):
    return (checkpoint.expires_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def tensors_of(content):
    """Names and shapes of a safetensors file."""
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


class Stored(ServedCase):
    KEYS = KEYS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service, cls.rest = cls.client("ada")
        cls.training = cls.service.create_lora_training_client(BASE_MODEL, rank=4, seed=1)
        train(cls.training, 1)
        cls.run_id = cls.training.model_id

    @classmethod
    def client(cls, owner):
        service = tinker.ServiceClient(api_key=KEYS[owner])
        return service, rest_of(service, KEYS[owner])

    def saved(self, name, **options):
        return self.training.save_state(f"{self._testMethodName}-{name}", **options).result().path

    def entries(self, run_id=None):
        return {c.tinker_path: c for c in self.rest.list_checkpoints(run_id or self.run_id).result().checkpoints}


class Lists(Stored):
    def test_each_kind_has_names_of_its_own(self):
        paths = [self.training.save_state("0000").result().path]
        paths.append(self.training.save_weights_for_sampler("0000").result().path)
        kinds = {"weights/0000": "training", "sampler_weights/0000": "sampler"}
        if EXPORTS:
            paths.append(self.training.save_weights_external("0000").result().path)
            kinds["external_weights/0000"] = "external"
        entries = self.entries()
        self.assertEqual({entries[p].checkpoint_id: entries[p].checkpoint_type for p in paths}, kinds)

    def test_exports_are_hidden_from_clients_that_cannot_read_them(self):
        body = b'{"model_id":"%s","path":"hidden","seq_id":null,"type":"save_weights_external"}' % self.run_id.encode()
        headers = {"X-API-Key": KEYS["ada"], "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.server.url}/api/v1/save_weights_external", body, headers)
        json.loads(fetch(request))
        url = f"{self.server.url}/api/v1/training_runs/{self.run_id}/checkpoints"

        def names(version):
            return fetch(urllib.request.Request(url, headers={**headers, "X-Stainless-Package-Version": version}))

        self.assertTrue(eventually(lambda: b"external_weights/hidden" in names("0.28.0")))
        self.assertNotIn(b"external_weights", names("0.27.2"))

    def test_dots_belong_to_names(self):
        for name in ("v1.0", "..a", "a..b", ".hidden", "..."):
            path = self.training.save_state(name).result().path
            self.assertEqual(path, f"tinker://{self.run_id}/weights/{name}")
            self.assertIn(path, self.entries())
            self.assertTrue(
                same(fingerprint(self.service.create_training_client_from_state(path)), fingerprint(self.training))
            )
            sampler = self.training.save_weights_for_sampler(name).result().path
            self.assertEqual(len(self.service.create_sampling_client(model_path=sampler).compute_logprobs(text(1, 2)).result()), 2)
            self.rest.publish_checkpoint_from_tinker_path(path).result()
            self.rest.delete_checkpoint_from_tinker_path(path).result()
            self.assertNotIn(path, self.entries())
            self.assertIn(sampler, self.entries())

    if IS_NEW:

        def test_metadata_is_kept_with_a_checkpoint_and_replaced_with_it(self):
            path = self.saved("noted", user_metadata={"epoch": "3"})
            self.assertEqual(self.entries()[path].user_metadata, {"epoch": "3"})
            self.saved("noted", overwrite=True)
            self.assertIsNone(self.entries()[path].user_metadata)

    def test_pages_of_checkpoints_go_from_new_to_old(self):
        paths = [self.saved(i) for i in range(5)]
        first = self.rest.list_user_checkpoints(limit=3).result()
        self.assertEqual([c.tinker_path for c in first.checkpoints], paths[:1:-1])
        second = self.rest.list_user_checkpoints(limit=3, offset=3).result()
        self.assertEqual([c.tinker_path for c in second.checkpoints][:2], paths[1::-1])
        self.assertEqual((second.cursor.offset, second.cursor.limit), (3, 3))
        self.assertEqual(first.cursor.total_count, second.cursor.total_count)
        beyond = self.rest.list_user_checkpoints(offset=10_000).result()
        self.assertEqual((beyond.checkpoints, beyond.cursor.total_count), ([], first.cursor.total_count))

    def test_pages_of_runs_go_from_new_to_old(self):
        runs = [self.service.create_lora_training_client(BASE_MODEL, rank=1).model_id for _ in range(5)]
        pages = [self.rest.list_training_runs(limit=2, offset=offset).result() for offset in (0, 2, 4)]
        listed = [run.training_run_id for page in pages for run in page.training_runs]
        self.assertEqual(listed[:5], runs[::-1])
        self.assertEqual(len({page.cursor.total_count for page in pages}), 1)

    def test_a_run_names_its_latest_checkpoints(self):
        self.saved("a")
        last = self.saved("b")
        sampler = self.training.save_weights_for_sampler("latest").result().path
        run = self.rest.get_training_run(self.run_id).result()
        self.assertEqual(run.last_checkpoint.tinker_path, last)
        self.assertEqual(run.last_sampler_checkpoint.tinker_path, sampler)

    def test_a_project_has_the_runs_of_its_sessions(self):
        service = tinker.ServiceClient(project_id="lab")
        run = service.create_lora_training_client(BASE_MODEL, rank=1).model_id
        listed = self.rest.list_training_runs(project_id="lab").result().training_runs
        self.assertEqual([r.training_run_id for r in listed], [run])
        self.assertEqual(self.rest.list_training_runs(project_id="none").result().training_runs, [])


class Lives(Stored):
    def test_a_life_is_given_changed_and_ended(self):
        path = self.saved("short", ttl_seconds=HOUR)
        self.assertAlmostEqual(seconds_left(self.entries()[path]), HOUR, delta=30)
        self.rest.set_checkpoint_ttl_from_tinker_path(path, 10 * HOUR).result()
        self.assertAlmostEqual(seconds_left(self.entries()[path]), 10 * HOUR, delta=30)
        self.rest.set_checkpoint_ttl_from_tinker_path(path, None).result()
        self.assertIsNone(self.entries()[path].expires_at)

    def test_a_life_out_of_range_is_refused(self):
        path = self.saved("kept")
        for ttl in (0, 5, -HOUR, 10**12):
            call = self.rest.set_checkpoint_ttl_from_tinker_path
            self.assert_refused(lambda: call(path, ttl), ttl, kind=REFUSED)
        self.assertIsNone(self.entries()[path].expires_at)

    def test_publishing_twice_is_no_mistake(self):
        path = self.saved("public")
        for change, is_public in (
            (self.rest.publish_checkpoint_from_tinker_path, True),
            (self.rest.unpublish_checkpoint_from_tinker_path, False),
        ):
            for _ in range(2):
                self.assertIsNone(in_time(lambda: change(path), QUICK_SECONDS))
                self.assertEqual(self.entries()[path].public, is_public)

    def test_taking_back_does_not_delete(self):
        path = self.saved("there")
        self.rest.publish_checkpoint_from_tinker_path(path).result()
        self.rest.unpublish_checkpoint_from_tinker_path(path).result()
        self.assertIn(path, self.entries())

    def test_what_is_deleted_is_gone_from_lists_and_disk(self):
        kept, gone = self.saved("kept"), self.saved("gone")
        folders = lambda: {p.parent for p in self.server.data.rglob("adapter_model.safetensors")}  # noqa: E731
        before = folders()
        self.rest.delete_checkpoint_from_tinker_path(gone).result()
        self.assertNotIn(gone, self.entries())
        self.assertIn(kept, self.entries())
        self.assertTrue(eventually(lambda: len(folders()) == len(before) - 1))
        for call in (
            lambda: self.rest.delete_checkpoint_from_tinker_path(gone),
            lambda: self.rest.get_weights_info_by_tinker_path(gone),
            lambda: self.service.create_training_client_from_state(gone),
        ):
            self.assert_refused(call, gone)
        self.assertEqual(self.saved("gone"), gone)

    def test_a_bare_id_deletes_nothing(self):
        path = self.saved("kept")
        before = self.entries().keys()
        for id in (path.rpartition("/")[2], "nothing/" + path.rpartition("/")[2], "weights", "weights/.."):
            self.assert_refused(lambda: self.rest.delete_checkpoint(self.run_id, id), kind=tinker.APIStatusError)
        self.assertEqual(self.entries().keys(), before)

    def test_names_that_no_checkpoint_has_are_refused_with_the_name(self):
        none = f"tinker://{self.run_id}/weights/none"
        calls = {
            "publish_checkpoint_from_tinker_path": (none,),
            "unpublish_checkpoint_from_tinker_path": (none,),
            "set_checkpoint_ttl_from_tinker_path": (none, HOUR),
            "delete_checkpoint_from_tinker_path": (none,),
            "get_weights_info_by_tinker_path": (none,),
            "list_checkpoints": ("no-such-run",),
            "get_training_run": ("no-such-run",),
            "get_session": ("no-such-session",),
            "get_sampler": ("no-such-sampler",),
            "assign_session_project": ("no-such-session", "project"),
            "export_session_trace": ("no-such-session",),
        }
        if hasattr(self.rest, "copy_weights"):
            calls["copy_weights"] = (none, "project")
        if not IS_NEW:
            calls["get_checkpoint_archive_url_from_tinker_path"] = (none,)
        if EXPORTS:
            calls["get_external_weights_urls"] = (none.replace("/weights/", "/external_weights/"),)
        for name, arguments in calls.items():
            with self.subTest(name):
                self.assert_refused(lambda: getattr(self.rest, name)(*arguments), arguments[0], kind=tinker.NotFoundError)

    def test_a_sampler_outlives_its_run(self):
        path = self.training.save_weights_for_sampler("alone").result().path
        expected = self.training.save_weights_and_get_sampling_client().compute_logprobs(text(*SENTENCES[0])).result()
        sampling = tinker.ServiceClient().create_sampling_client(model_path=path)
        self.assertEqual(sampling.compute_logprobs(text(*SENTENCES[0])).result(), expected)

    def test_a_training_checkpoint_can_be_sampled(self):
        sampling = self.service.create_sampling_client(model_path=self.saved("trained"))
        scored = sampling.compute_logprobs(text(*SENTENCES[0])).result()
        self.assertEqual(scored[1:], fingerprint(self.training)[0].tolist())


class Exporting(Stored):
    def export(self, name, **options):
        return self.training.save_weights_external(f"{self._testMethodName}-{name}", **options).result().path

    def files(self, path):
        urls = self.rest.get_external_weights_urls(path).result().urls
        return {name: fetch(url) for name, url in urls.items()}


if EXPORTS:

    class Exports(Exporting):
        def test_files_are_in_the_layout_of_peft(self):
            files = self.files(self.export("plain"))
            self.assertLessEqual(PEFT_FILES, files.keys())
            config = json.loads(files["adapter_config.json"])
            self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", 4, 32))
            tensors = tensors_of(files["adapter_model.safetensors"])
            pattern = r"base_model\.model\.(model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj|lm_head)\.lora_[AB]\.weight"
            for name, shape in tensors.items():
                self.assert_matches(pattern, name)
                self.assertEqual(shape[0 if "lora_A" in name else 1], 4)
            self.assertEqual(len(tensors), 2 * (2 * 7 + 1))  # two layers of seven projections, and the head

        def test_an_export_is_listed_kept_for_its_life_and_deleted(self):
            path = self.export("listed", ttl_seconds=HOUR)
            entry = self.entries()[path]
            self.assertEqual((entry.checkpoint_type, entry.public), ("external", False))
            self.assertEqual(entry.size_bytes, sum(map(len, self.files(path).values())))
            self.assertAlmostEqual(seconds_left(entry), HOUR, delta=30)
            self.rest.delete_checkpoint_from_tinker_path(path).result()
            self.assertNotIn(path, self.entries())

        def test_links_are_signed_expire_and_need_no_key(self):
            answer = self.rest.get_external_weights_urls(self.export("linked")).result()
            self.assertGreater(answer.expires, datetime.datetime.now(datetime.timezone.utc))
            url = answer.urls["adapter_config.json"]
            self.assertGreater(len(fetch(url)), 0)
            other = url.replace("adapter_config.json", "adapter_model.safetensors")
            flip = lambda match: match[1] + ("a" if match[2] != "a" else "b")  # noqa: E731
            forged = re.sub(r"(signature=)(.)", flip, url)
            later = re.sub(r"(expires=)(\d)", lambda m: m[1] + str(int(m[2]) + 1), url)
            for bad in (other, forged, later, url.partition("?")[0]):
                self.assertNotEqual(bad, url)
                with self.assertRaises(urllib.error.HTTPError) as error:
                    fetch(bad)
                self.assertIn(error.exception.code, (401, 403))

        def test_only_exports_have_links(self):
            self.assert_refused(lambda: self.rest.get_external_weights_urls(self.saved("training")), "external")


if IS_NEW:

    class EncryptedExports(Exporting):
        def test_encrypted_files_are_for_their_recipients(self):
            path = self.export("secret", age_encryption_recipients=[RECIPIENT])
            files = self.files(path)
            self.assertLessEqual({name + ".age" for name in PEFT_FILES}, files.keys())
            for name, content in files.items():
                self.assert_matches(r".*\.age", name)
                self.assertTrue(content.startswith(b"age-encryption.org/v1\n-> X25519 "), content[:40])
                self.assertNotIn(b"lora_", content)

        def test_whoever_has_a_key_reads_what_was_written(self):
            keys = [pyrage.x25519.Identity.generate() for _ in range(2)]
            recipients = [str(key.to_public()) for key in keys]
            plain, secret = self.export("plain"), self.export("secret", age_encryption_recipients=recipients)
            plain, secret = self.files(plain), self.files(secret)
            for key in keys:
                opened = {name.removesuffix(".age"): pyrage.decrypt(content, [key]) for name, content in secret.items()}
                self.assertEqual(opened, plain)
            with self.assertRaises(pyrage.DecryptError):
                pyrage.decrypt(secret["adapter_config.json.age"], [pyrage.x25519.Identity.generate()])

        def test_what_was_decrypted_is_sampled_from_elsewhere(self):
            key = pyrage.x25519.Identity.generate()
            path = self.export("secret", age_encryption_recipients=[str(key.to_public())])
            ours = self.training.save_weights_and_get_sampling_client()
            base = self.service.create_sampling_client(base_model=BASE_MODEL)
            with tempfile.TemporaryDirectory() as folder:
                for name, content in self.files(path).items():
                    pathlib.Path(folder, name.removesuffix(".age")).write_bytes(pyrage.decrypt(content, [key]))
                with Served(ARGUMENTS.tinker, "--adapter", f"ours={folder}") as other:
                    service = tinker.ServiceClient(base_url=other.url, api_key=LOCAL_KEY)
                    theirs = service.create_sampling_client(model_path="tinker://imported/sampler_weights/ours")
                    for sentence in SENTENCES:
                        expected = ours.compute_logprobs(text(*sentence)).result()
                        self.assertEqual(theirs.compute_logprobs(text(*sentence)).result(), expected)
                        self.assertNotEqual(base.compute_logprobs(text(*sentence)).result(), expected)
                    service.close("success", None).result()

        def test_recipients_that_are_none_are_refused(self):
            ssh = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN you@host"
            for bad, part in (["age1nonsense"], "age1nonsense"), ([ssh], "ssh-ed25519"), ([RECIPIENT] * 11, "10"):
                save = lambda: self.training.save_weights_external("bad", age_encryption_recipients=bad)  # noqa: E731
                self.assert_refused(save, part, kind=tinker.RequestFailedError)

        def test_exports_are_not_for_sampling_and_encrypted_ones_for_nothing_here(self):
            plain = self.export("plain")
            secret = self.export("secret", age_encryption_recipients=[RECIPIENT])
            self.assert_refused(lambda: self.service.create_sampling_client(model_path=plain), plain)
            self.assert_refused(lambda: self.service.create_sampling_client(model_path=secret), secret)
            self.assert_refused(lambda: self.service.create_training_client_from_state(secret), secret)

        def test_copies_share_the_weights_and_outlive_the_source(self):
            path = self.saved("source")
            copy = self.rest.copy_weights(path, "archive", ttl_seconds=HOUR).result()
            self.rest.delete_checkpoint_from_tinker_path(path).result()
            run_id = types.ParsedCheckpointTinkerPath.from_tinker_path(copy).training_run_id
            entry = self.entries(run_id)[copy]
            self.assertEqual((entry.checkpoint_type, entry.public), ("training", False))
            self.assertAlmostEqual(seconds_left(entry), HOUR, delta=30)
            training = self.service.create_training_client_from_state_with_optimizer(copy)
            self.assertTrue(same(fingerprint(training), fingerprint(self.training)))
            self.rest.delete_checkpoint_from_tinker_path(copy).result()
            self.assert_refused(lambda: self.service.create_sampling_client(model_path=copy), copy)

else:

    class Archives(Stored):
        def test_an_archive_is_a_tar_with_what_is_needed(self):
            path = self.training.save_weights_for_sampler("archived").result().path
            answer = self.rest.get_checkpoint_archive_url_from_tinker_path(path).result()
            self.assertGreater(answer.expires, datetime.datetime.now(datetime.timezone.utc))
            with tarfile.open(fileobj=io.BytesIO(fetch(answer.url))) as archive:
                files = {m.name.removeprefix("./"): archive.extractfile(m).read() for m in archive if m.isfile()}
                self.assertFalse([m.name for m in archive if not (m.isfile() or m.isdir())])
            self.assertLessEqual(PEFT_FILES | {"checkpoint_complete"}, files.keys())
            self.assertEqual(json.loads(files["adapter_config.json"])["r"], 4)
            self.assertTrue(tensors_of(files["adapter_model.safetensors"]))


class Owners(Stored):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = cls.training.save_state("of-ada").result().path
        cls.session_id = cls.service.holder.get_session_id()
        cls.others_service, cls.others = cls.client("bob")
        cls.others_training = cls.others_service.create_lora_training_client(BASE_MODEL, rank=1)

    def test_lists_have_only_what_is_the_callers(self):
        others, run = self.others, self.others_training.model_id
        self.assertEqual([r.training_run_id for r in others.list_training_runs().result().training_runs], [run])
        self.assertEqual(others.list_user_checkpoints().result().checkpoints, [])
        self.assertEqual(others.list_sessions().result().sessions, [self.others_service.holder.get_session_id()])
        self.assertEqual(others.list_training_runs(access_scope="accessible").result().cursor.total_count, 1)
        mine = {r.training_run_id for r in self.rest.list_training_runs(limit=100).result().training_runs}
        self.assertTrue(self.run_id in mine and run not in mine)

    def test_what_is_anothers_looks_as_if_it_were_not_there(self):
        sampler = self.service.create_sampling_client(base_model=BASE_MODEL)._sampling_session_id
        for name, *arguments in (
            ("get_training_run", self.run_id),
            ("get_training_run_by_tinker_path", self.path),
            ("list_checkpoints", self.run_id),
            ("get_weights_info_by_tinker_path", self.path),
            ("delete_checkpoint_from_tinker_path", self.path),
            ("publish_checkpoint_from_tinker_path", self.path),
            ("set_checkpoint_ttl_from_tinker_path", self.path, HOUR),
            ("get_session", self.session_id),
            ("assign_session_project", self.session_id, "mine"),
            ("get_sampler", sampler),
        ):
            with self.subTest(name):
                self.assert_refused(lambda: getattr(self.others, name)(*arguments), kind=tinker.NotFoundError)
        self.assertIn(self.path, self.entries())

    def test_anothers_weights_cannot_be_used(self):
        service = self.others_service
        for call in (
            lambda: service.create_training_client_from_state(self.path),
            lambda: service.create_sampling_client(model_path=self.path),
            lambda: self.others_training.load_state(self.path),
        ):
            self.assert_refused(call, self.path)

    def test_public_weights_are_for_all_to_read_and_for_none_to_change(self):
        path = self.saved("public")
        self.rest.publish_checkpoint_from_tinker_path(path).result()
        self.assertEqual(self.others.get_weights_info_by_tinker_path(path).result().base_model, BASE_MODEL)
        training = self.others_service.create_training_client_from_state(path)
        self.assertTrue(same(fingerprint(training), fingerprint(self.training)))
        sampling = self.others_service.create_sampling_client(model_path=path)
        self.assertEqual(len(sampling.compute_logprobs(text(1, 2)).result()), 2)
        self.assert_refused(lambda: self.others.delete_checkpoint_from_tinker_path(path), kind=tinker.NotFoundError)
        self.rest.unpublish_checkpoint_from_tinker_path(path).result()
        self.assert_refused(lambda: self.others.get_weights_info_by_tinker_path(path), kind=tinker.NotFoundError)

    def test_a_wrong_key_is_refused_at_once_and_not_repeated(self):
        call = lambda: tinker.ServiceClient(api_key="tml-nobody").get_server_capabilities()  # noqa: E731
        error = self.assert_refused(call, kind=tinker.AuthenticationError)
        self.assertNotIn("tml-nobody", text_of(error))
        self.assertNotIn("tml-nobody", self.server.log_text())

    def test_keys_are_in_no_log(self):
        for key in KEYS.values():
            self.assertNotIn(key, self.server.log_text())


class Restarts(Stored):
    def test_checkpoints_are_there_after_a_restart(self):
        path, expected = self.saved("kept"), fingerprint(self.training)
        before = self.entries()
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        os.environ["TINKER_BASE_URL"] = self.server.url
        type(self).service, type(self).rest = self.client("ada")
        self.assertEqual(self.entries(), before)
        training = self.service.create_training_client_from_state_with_optimizer(path)
        self.assertTrue(same(fingerprint(training), expected))


if __name__ == "__main__":
    main()
