"""Every public method of the official SDK against the server, in both forms, with all features on or off.

Methods are found in the package: one that no test calls fails the script.
"""

import asyncio
import datetime
import io
import json
import pickle
import tarfile
import urllib.request

import small_torch

IS_STAND_IN = small_torch.install()

import methods  # noqa: E402
import tinker  # noqa: E402
from batches import ADAM, batch, fingerprint, logprobs, same, text, train, weighted_loss  # noqa: E402
from case import *  # noqa: E402
from tinker import types  # noqa: E402
from tinker.lib.api_future_impl import QueueState  # noqa: E402
from tinker.lib.public_interfaces.rest_client import RestClient  # noqa: E402
from tinker.lib.public_interfaces.sampling_client import SamplingClient  # noqa: E402

METHODS = methods.watch(__file__)
VERSION = tuple(map(int, tinker.__version__.split(".")))
IS_NEW = VERSION >= (0, 36)
EXPORTS = hasattr(tinker.TrainingClient, "save_weights_external")  # since 0.28
COPIES = hasattr(RestClient, "copy_weights")  # since 0.34
COUNTS_STORAGE = hasattr(RestClient, "get_current_checkpoint_storage_usage")  # since 0.32
ONCE = {"first": 0}


def fresh(prefix):
    """A name for a checkpoint that no other call uses."""
    ONCE["first"] += 1
    return f"{prefix}-{ONCE['first']}"


def greedy(**others):
    return types.SamplingParams(max_tokens=4, temperature=0.0, stop=[], **others)


def half_square(logprobs, weights):
    loss = (logprobs * logprobs * 0.5 * weights).sum()
    return loss, {"custom/half_square:sum": loss, "custom/first:mean": logprobs[0]}


def half_squares(data, rows):
    """The same for all datums at once, with plain weights."""
    return sum((row * row * 0.5).sum() for row in rows), {"custom/mine": 3.0}


class Clients(ServedCase):
    @classmethod
    def setUpClass(cls):
        cls.KEYS = {"ada": "tml-the-test-key-of-ada"} if ARGUMENTS.flags == "on" else None
        super().setUpClass()
        cls.service = tinker.ServiceClient(user_metadata={"team": "ml"}, project_id="lab")
        cls.session_id = cls.service.holder.get_session_id()
        cls.rest = tinker.RestClient() if IS_NEW else cls.service.create_rest_client()
        cls.training = cls.new_training()

    @classmethod
    def new_training(cls, **options):
        return cls.service.create_lora_training_client(BASE_MODEL, rank=4, seed=1, **options)

    def both(self, client, name, *arguments, **options):
        """What the plain and the async form of a method of REST clients yield."""
        plain = getattr(client, name)(*arguments, **options).result()
        later = getattr(client, name + "_async")(*arguments, **options)
        # The SDK sends this one from the loop of its caller, and forbids all loops but its own.
        if name == "get_audit_log":
            return plain, self.service.holder.run_coroutine_threadsafe(later).result()
        return plain, asyncio.run(later)

    def save(self, prefix="saved"):
        return self.training.save_state(fresh(prefix)).result().path

    def assert_samples(self, sampling):
        """It answers, with as many tokens and logprobs as asked for; yields the tokens."""
        sequence = sampling.sample(text(1, 2, 3), 1, greedy()).result().sequences[0]
        self.assertEqual(len(sequence.tokens), 4)
        self.assertEqual(len(sequence.logprobs), 4)
        self.assertTrue(all(value <= 0 for value in sequence.logprobs), sequence.logprobs)
        self.assertEqual(sequence.stop_reason, "length")
        return sequence.tokens


class Flags(Clients):
    def announced(self, path):
        """The booleans of a configuration."""
        headers = {"X-API-Key": next(iter(self.server.keys.values())), "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.server.url}/api/v1/{path}", b'{"sdk_version":"0.36.0"}', headers)
        answer = json.load(urllib.request.urlopen(request, timeout=10))
        return {name: value for name, value in answer.items() if isinstance(value, bool)}

    def test_every_flag_is_as_the_server_was_started(self):
        expected = {**dict.fromkeys(FEATURES, ARGUMENTS.flags == "on"), **SETTINGS}
        expected["pjwt_auth_enabled"] = self.KEYS is not None  # by default where there are keys
        self.assertEqual({**self.announced("client/config"), **self.announced("client/dynamic_config")}, expected)


class Service(Clients):
    def test_capabilities_name_the_model_and_its_context_length(self):
        for answer in (
            self.service.get_server_capabilities(),
            asyncio.run(self.service.get_server_capabilities_async()),
        ):
            model = {m.model_name: m for m in answer.supported_models}[BASE_MODEL]
            self.assertGreater(model.max_context_length, 100)
            if IS_NEW:
                self.assertEqual((model.trainable, model.sampleable), (True, True))

    def test_training_clients_are_numbered_in_their_session(self):
        service = tinker.ServiceClient()
        session = service.holder.get_session_id()
        first = service.create_lora_training_client(BASE_MODEL, rank=2, user_metadata={"run": "a"})
        create = service.create_lora_training_client_async
        second = asyncio.run(create(BASE_MODEL, rank=8, seed=3, train_mlp=False, train_unembed=False))
        self.assertEqual((first.model_id, second.model_id), (f"{session}:train:0", f"{session}:train:1"))
        self.assertEqual((first.get_info().lora_rank, second.get_info().lora_rank), (2, 8))
        self.assertEqual(self.rest.get_training_run(first.model_id).result().user_metadata, {"run": "a"})
        info = self.rest.get_weights_info_by_tinker_path(second.save_state("a").result().path).result()
        self.assertEqual((info.train_mlp, info.train_attn, info.train_unembed), (False, True, False))

    def test_training_goes_on_from_a_state(self):
        train(self.training, 2)
        path, expected = self.save(), fingerprint(self.training)
        service = self.service
        for other in (
            service.create_training_client_from_state(path, user_metadata={"from": "state"}),
            asyncio.run(service.create_training_client_from_state_async(path)),
            service.create_training_client_from_state_with_optimizer(path),
            asyncio.run(service.create_training_client_from_state_with_optimizer_async(path)),
        ):
            self.assertNotEqual(other.model_id, self.training.model_id)
            self.assertTrue(same(fingerprint(other), expected))
            self.assertEqual(other.get_info().lora_rank, 4)

    def test_sampling_clients_are_made_of_models_and_of_paths(self):
        path = self.training.save_weights_for_sampler(fresh("sampler")).result().path
        for options in ({"base_model": BASE_MODEL}, {"model_path": path}):
            plain = self.service.create_sampling_client(**options)
            later = asyncio.run(self.service.create_sampling_client_async(**options))
            self.assertEqual(self.assert_samples(plain), self.assert_samples(later))

    def test_telemetry_is_at_work(self):
        self.assertIsNotNone(self.service.get_telemetry())

    def test_a_rest_client_of_a_service_sees_its_session(self):
        self.assertIn(self.session_id, self.service.create_rest_client().list_sessions().result().sessions)

    if IS_NEW:

        def test_the_console_url_names_the_session(self):
            self.assertIn(self.session_id, self.service.get_console_url())
            self.assertIn(self.training.model_id, self.training.get_console_url())

        def test_weights_are_copied_into_the_project(self):
            path = self.save()
            copy = self.service.copy_weights(path, ttl_seconds=7200).result()
            self.assertNotEqual(copy, path)
            self.assertEqual(
                self.rest.get_weights_info_by_tinker_path(copy).result(),
                self.rest.get_weights_info_by_tinker_path(path).result(),
            )

        def test_close_says_how_the_session_ended(self):
            for leave, reason in ((self.close_plainly, "success"), (self.leave_with_an_error, "errored")):
                session = leave()
                request = types.SessionSearchRequest(session_id=session)
                found = self.rest.search_sessions(request).result().sessions
                self.assertEqual([s.session_id for s in found], [session])
                self.assertEqual((found[0].status.type, found[0].status.reason.type), ("client_finished", reason))

        def close_plainly(self):
            service = tinker.ServiceClient()
            session = service.holder.get_session_id()
            self.assertIsNone(service.close("success", "all done").result())
            return session

        def leave_with_an_error(self):
            session = None
            try:
                with tinker.ServiceClient() as service:
                    session = service.holder.get_session_id()
                    raise KeyError("as a script would")
            except KeyError:
                return session

        def test_credentials_are_found_and_accepted(self):
            self.assertEqual(tinker.auth.get_tinker_token(), next(iter(self.server.keys.values())))
            self.assertTrue(tinker.auth.tinker_has_credentials())
            self.assertIsNone(tinker.auth.raise_if_tinker_not_accessible())


class CustomLoss(Clients):
    if IS_NEW:

        def test_a_loss_is_created_on_the_side_that_the_flag_says(self):
            handle = self.service.create_custom_loss(half_square, {"logprobs": 1, "weights": 1}).result()
            self.assertEqual((handle.name, handle.input_names), ("half_square", ("weights",)))
            self.assertEqual(handle.loss_id is not None, ARGUMENTS.flags == "on")
            training, data = self.new_training(), batch()
            rows = logprobs(training.forward(data, "cross_entropy").result())
            output = training.forward_backward_custom(data, handle).result()
            total = sum(float((row * row * 0.5).sum()) for row in rows)
            self.assertAlmostEqual(output.metrics["loss:sum"], total, delta=1e-4 * total)
            self.assertAlmostEqual(output.metrics["custom/half_square:sum"], total, delta=1e-4 * total)
            mean = sum(float(row[0]) for row in rows) / len(rows)
            self.assertAlmostEqual(output.metrics["custom/first:mean"], mean, delta=1e-4 * abs(mean))

    def test_a_function_is_differentiated_by_the_client(self):
        training, data = self.new_training(), batch()
        rows = logprobs(training.forward(data, "cross_entropy").result())
        total = sum(float((row * row * 0.5).sum()) for row in rows)
        for output in (
            training.forward_backward_custom(data, half_squares).result(),
            asyncio.run(self.custom_async(training, data)),
        ):
            # Before 0.30 it reports the loss that it sends in place of the caller's: -sum(w * logprob) with w = -d loss / d logprob.
            expected = total if VERSION >= (0, 30) else 2 * total
            self.assertAlmostEqual(output.metrics["loss:sum"], expected, delta=1e-4 * total)
            self.assertEqual(output.metrics["custom/mine"], 3.0)
        step = training.optim_step(ADAM).result()
        self.assertGreater(step.metrics["unclipped_grad_l2:mean"], 0)

    @staticmethod
    async def custom_async(training, data):
        return await (await training.forward_backward_custom_async(data, half_squares))


class Training(Clients):
    def assert_output(self, data, output):
        self.assertEqual(output.loss_fn_output_type, "scalar")
        self.assertEqual([row.shape for row in logprobs(output)], [(datum.model_input.length,) for datum in data])
        expected = weighted_loss(data, output)
        self.assertAlmostEqual(output.metrics["loss:sum"], expected, delta=1e-4 * abs(expected))

    async def awaited(self, method, *arguments, **options):
        return await (await method(*arguments, **options))

    def test_forward_and_forward_backward_agree(self):
        training, data = self.new_training(), batch()
        outputs = [
            training.forward(data, "cross_entropy").result(),
            asyncio.run(self.awaited(training.forward_async, data, "cross_entropy")),
            training.forward_backward(data, "cross_entropy").result(),
            asyncio.run(self.awaited(training.forward_backward_async, data, "cross_entropy")),
        ]
        for output in outputs:
            self.assert_output(data, output)
            self.assertTrue(same(logprobs(output), logprobs(outputs[0])))

    def test_a_step_follows_the_gradients(self):
        training = self.new_training()
        before = fingerprint(training)
        training.forward(batch(), "cross_entropy").result()
        step = training.optim_step(ADAM).result()  # a forward pass leaves no gradient
        self.assertEqual(step.metrics["unclipped_grad_l2:mean"], 0)
        self.assertTrue(same(fingerprint(training), before))
        training.forward_backward(batch(), "cross_entropy").result()
        step = asyncio.run(self.awaited(training.optim_step_async, ADAM))
        self.assertGreater(step.metrics["unclipped_grad_l2:mean"], 0)
        self.assertFalse(same(fingerprint(training), before))

    def test_states_are_saved_and_loaded(self):
        training = self.new_training()
        train(training, 1)
        at_save = fingerprint(training)
        first = training.save_state("state", ttl_seconds=7200).result().path
        second = asyncio.run(self.awaited(training.save_state_async, "state", overwrite=True)).path
        self.assertEqual((first, second), (f"tinker://{training.model_id}/weights/state",) * 2)
        for load in (training.load_state, training.load_state_with_optimizer):
            train(training, 1)
            self.assertFalse(same(fingerprint(training), at_save))
            load(first).result()
            self.assertTrue(same(fingerprint(training), at_save))
        for load in (training.load_state_async, training.load_state_with_optimizer_async):
            train(training, 1)
            self.assertEqual(asyncio.run(self.awaited(load, first)).path, first)
            self.assertTrue(same(fingerprint(training), at_save))

    def test_sampler_weights_are_saved_under_their_name(self):
        training = self.training
        prefix = f"tinker://{training.model_id}/sampler_weights/"
        self.assertEqual(training.save_weights_for_sampler("one").result().path, prefix + "one")
        save = training.save_weights_for_sampler_async
        self.assertEqual(asyncio.run(self.awaited(save, "two", ttl_seconds=7200)).path, prefix + "two")
        for sampling in (
            training.create_sampling_client(prefix + "one"),
            asyncio.run(training.create_sampling_client_async(prefix + "two")),
        ):
            self.assert_samples(sampling)

    def test_what_was_just_trained_can_be_sampled(self):
        plain = self.training.save_weights_and_get_sampling_client()
        later = asyncio.run(self.training.save_weights_and_get_sampling_client_async())
        self.assertEqual(self.assert_samples(plain), self.assert_samples(later))

    if EXPORTS:

        def test_external_weights_are_saved_under_their_name(self):
            training = self.new_training()
            prefix = f"tinker://{training.model_id}/external_weights/"
            self.assertEqual(training.save_weights_external("one").result().path, prefix + "one")
            later = asyncio.run(self.awaited(training.save_weights_external_async, "two", ttl_seconds=7200))
            self.assertEqual(later.path, prefix + "two")

    def test_info_describes_the_model(self):
        for info in (self.training.get_info(), asyncio.run(self.training.get_info_async())):
            self.assertEqual(info.model_id, self.training.model_id)
            self.assertEqual(info.model_data.model_name, BASE_MODEL)
            self.assertEqual((info.is_lora, info.lora_rank), (True, 4))
            self.assertTrue(info.model_data.arch)

    def test_the_tokenizer_is_that_of_the_model(self):
        tokenizer = self.training.get_tokenizer()
        self.assertEqual(tokenizer.decode(tokenizer.encode("to be or not")), "to be or not")
        self.assertIsNotNone(self.training.get_telemetry())

    def test_futures_are_blocked_on_and_awaited(self):
        future = self.training.forward(batch(), "cross_entropy")
        expected = logprobs(future.result(timeout=60))
        self.assertTrue(same(logprobs(asyncio.run(future.result_async(timeout=60))), expected))
        self.assertTrue(same(logprobs(future.future().result(timeout=60)), expected))


class Sampling(Clients):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sampling = cls.service.create_sampling_client(base_model=BASE_MODEL)
        cls.sampler_id = cls.sampling._sampling_session_id

    def test_samples_have_tokens_and_logprobs(self):
        for answer in (
            self.sampling.sample(text(1, 2, 3), 2, greedy()).result(),
            asyncio.run(self.sampling.sample_async(text(1, 2, 3), 2, greedy())),
        ):
            self.assertEqual([len(s.tokens) for s in answer.sequences], [4, 4])
            self.assertEqual(answer.sequences[0].tokens, answer.sequences[1].tokens)
            if IS_NEW:
                self.assertEqual(len({s.sequence_id for s in answer.sequences}), 2)

    def test_a_prompt_is_scored_after_its_first_token(self):
        for values in (
            self.sampling.compute_logprobs(text(1, 2, 3)).result(),
            asyncio.run(self.sampling.compute_logprobs_async(text(1, 2, 3))),
        ):
            self.assertIsNone(values[0])
            self.assertTrue(len(values) == 3 and all(value < 0 for value in values[1:]), values)

    def test_the_sampler_knows_its_model(self):
        self.assertEqual(self.sampling.get_base_model(), BASE_MODEL)
        self.assertEqual(asyncio.run(self.sampling.get_base_model_async()), BASE_MODEL)
        self.assertEqual(self.sampling.get_tokenizer().encode("a"), self.training.get_tokenizer().encode("a"))
        self.assertIsNotNone(self.sampling.get_telemetry())

    def test_a_client_is_made_of_a_session_that_exists(self):
        again = SamplingClient.create(self.service.holder, base_model=BASE_MODEL).result()
        self.assertEqual(self.assert_samples(again), self.assert_samples(self.sampling))

    def test_copies_of_a_client_sample_too(self):
        expected = self.assert_samples(self.sampling)
        copies = [pickle.loads(pickle.dumps(self.sampling)) for _ in range(2)]
        if IS_NEW:
            copies.append(SamplingClient.from_sampler_handle(self.sampling.get_sampler_handle()))
        for copy in copies:
            self.assertEqual(self.assert_samples(copy), expected)
            self.assertEqual(copy._sampling_session_id, self.sampler_id)
        numbers = {copy._request_id_counter // 10**9 for copy in copies}
        self.assertEqual(len(numbers - {0}), len(copies), "each copy counts for itself")

    def test_a_reason_to_wait_reaches_the_log(self):
        with self.assertLogs("tinker", "WARNING") as logs:
            self.sampling.on_queue_state_change(QueueState.PAUSED_CAPACITY, "no memory left")
        self.assertIn("no memory left", logs.output[0])


class Rest(Clients):
    def setUp(self):
        self.path = self.save("rest")
        self.run_id = self.training.model_id

    def checkpoints(self):
        return {c.tinker_path: c for c in self.rest.list_checkpoints(self.run_id).result().checkpoints}

    def test_runs_are_described(self):
        by_id = self.both(self.rest, "get_training_run", self.run_id)
        by_path = self.both(self.rest, "get_training_run_by_tinker_path", self.path, access_scope="accessible")
        for run in (*by_id, *by_path):
            self.assertEqual((run.training_run_id, run.base_model), (self.run_id, BASE_MODEL))
            self.assertEqual((run.is_lora, run.lora_rank, run.corrupted), (True, 4, False))
            self.assertEqual(run.last_checkpoint.tinker_path, self.path)
            age = datetime.datetime.now(datetime.timezone.utc) - run.last_request_time
            self.assertLess(age.total_seconds(), 60)

    def test_runs_are_listed_newest_first(self):
        newest = self.new_training().model_id
        for answer in self.both(self.rest, "list_training_runs", limit=1):
            self.assertEqual([run.training_run_id for run in answer.training_runs], [newest])
            self.assertEqual((answer.cursor.offset, answer.cursor.limit), (0, 1))
            self.assertGreaterEqual(answer.cursor.total_count, 2)

    def test_checkpoints_are_listed(self):
        for answer in self.both(self.rest, "list_checkpoints", self.run_id):
            entry = {c.tinker_path: c for c in answer.checkpoints}[self.path]
            self.assertEqual((entry.checkpoint_type, entry.public, entry.expires_at), ("training", False, None))
            self.assertEqual(f"tinker://{self.run_id}/{entry.checkpoint_id}", self.path)
            self.assertGreater(entry.size_bytes, 1000)
        for answer in self.both(self.rest, "list_user_checkpoints", limit=1):
            self.assertEqual([c.tinker_path for c in answer.checkpoints], [self.path])

    def test_weights_are_described(self):
        info = self.rest.get_weights_info_by_tinker_path(self.path).result()
        self.assertEqual((info.base_model, info.is_lora, info.lora_rank), (BASE_MODEL, True, 4))
        self.assertEqual((info.train_attn, info.train_mlp, info.train_unembed), (True, True, True))

    def test_checkpoints_are_deleted_by_id_and_by_path(self):
        saved = [self.save() for _ in range(4)]
        ids = [path.removeprefix(f"tinker://{self.run_id}/") for path in saved]
        self.assertIsNone(self.rest.delete_checkpoint(self.run_id, ids[0]).result())
        self.assertIsNone(asyncio.run(self.rest.delete_checkpoint_async(self.run_id, ids[1])))
        self.assertIsNone(self.rest.delete_checkpoint_from_tinker_path(saved[2]).result())
        self.assertIsNone(asyncio.run(self.rest.delete_checkpoint_from_tinker_path_async(saved[3])))
        self.assertFalse(self.checkpoints().keys() & set(saved))
        self.assertIn(self.path, self.checkpoints())

    def test_checkpoints_are_published_and_taken_back(self):
        rest = self.rest
        self.assertIsNone(rest.publish_checkpoint_from_tinker_path(self.path).result())
        self.assertTrue(self.checkpoints()[self.path].public)
        self.assertIsNone(rest.unpublish_checkpoint_from_tinker_path(self.path).result())
        self.assertFalse(self.checkpoints()[self.path].public)
        self.assertIsNone(asyncio.run(rest.publish_checkpoint_from_tinker_path_async(self.path)))
        self.assertTrue(self.checkpoints()[self.path].public)
        self.assertIsNone(asyncio.run(rest.unpublish_checkpoint_from_tinker_path_async(self.path)))
        self.assertFalse(self.checkpoints()[self.path].public)

    def test_the_life_of_a_checkpoint_is_set_and_freed(self):
        rest = self.rest
        for set_ttl in (
            lambda ttl: rest.set_checkpoint_ttl_from_tinker_path(self.path, ttl).result(),
            lambda ttl: asyncio.run(rest.set_checkpoint_ttl_from_tinker_path_async(self.path, ttl)),
        ):
            set_ttl(7200)
            left = self.checkpoints()[self.path].expires_at - datetime.datetime.now(datetime.timezone.utc)
            self.assertTrue(7100 < left.total_seconds() <= 7200, left)
            set_ttl(None)
            self.assertIsNone(self.checkpoints()[self.path].expires_at)

    def test_sessions_are_listed_and_described(self):
        for answer in self.both(self.rest, "list_sessions", limit=100):
            self.assertIn(self.session_id, answer.sessions)
        self.service.create_sampling_client(base_model=BASE_MODEL)
        for answer in self.both(self.rest, "get_session", self.session_id):
            self.assertIn(self.run_id, answer.training_run_ids)
            self.assertTrue(answer.sampler_ids[0].startswith(f"{self.session_id}:sample:"))
            if IS_NEW:
                self.assertEqual((answer.user_metadata, answer.display_name), ({"team": "ml"}, None))

    def test_sessions_move_to_a_project(self):
        for answer in self.both(self.rest, "assign_session_project", self.session_id, "project-9"):
            self.assertIsNone(answer)
        if IS_NEW:
            request = types.SessionSearchRequest(project_ids=["project-9"])
            for answer in self.both(self.rest, "search_sessions", request):
                self.assertEqual([s.session_id for s in answer.sessions], [self.session_id])
                self.assertEqual(answer.sessions[0].status.type, "active")
                self.assertGreaterEqual(answer.sessions[0].checkpoints_count, 1)

    def test_there_is_no_trace_and_the_reason_is_told(self):
        for call in (
            self.rest.export_session_trace(self.session_id).result,
            lambda: asyncio.run(self.rest.export_session_trace_async(self.session_id)),
        ):
            answer = in_time(call, 30)
            self.assertIsInstance(answer, RuntimeError)
            self.assertTrue(str(answer).endswith(f"{self.session_id}: this server records no traces"), str(answer))

    def test_the_sampler_is_described(self):
        sampling = self.service.create_sampling_client(model_path=self.path)
        for answer in (
            self.rest.get_sampler(sampling._sampling_session_id).result(),
            asyncio.run(self.rest.get_sampler_async(sampling._sampling_session_id)),
        ):
            self.assertEqual(answer.sampler_id, sampling._sampling_session_id)
            self.assertEqual((answer.base_model, answer.model_path), (BASE_MODEL, self.path))

    def test_who_calls_is_known_where_keys_are(self):
        if ARGUMENTS.flags == "on":
            answer = self.rest.whoami().result()
            self.assertEqual(answer.user_urn, "tml:organization_user:ada")
            if IS_NEW:
                self.assert_matches("tml:organization:.+", answer.org_urn)
        else:
            self.assert_refused(lambda: self.rest.whoami().result(), "JWT")
        self.assertIsNotNone(self.rest.get_telemetry())

    def test_usage_is_counted(self):
        train(self.training, 1)
        self.assert_samples(self.service.create_sampling_client(base_model=BASE_MODEL))
        hour = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
        window = hour, hour + datetime.timedelta(hours=2)

        def kinds():
            events = self.rest.get_billing_usage(*window).result().data
            return {event.event_info.type for event in events if event.base_model == BASE_MODEL}

        self.assertTrue(eventually(lambda: {"training", "sampling_prefill", "sampling_sample"} <= kinds()), kinds())
        for answer in self.both(self.rest, "get_billing_usage", *window):
            tokens = [e.event_info.token_count for e in answer.data if e.event_info.type == "training"]
            self.assertGreaterEqual(sum(tokens), sum(datum.model_input.length for datum in batch()))

    def test_deletions_are_in_the_audit_log(self):
        self.rest.delete_checkpoint_from_tinker_path(self.path).result()
        for answer in self.both(self.rest, "get_audit_log", "checkpoints"):
            self.assertIn(self.path, str([entry for entry in answer.entries if "delete" in entry.event]))

    if EXPORTS:

        def test_external_weights_have_a_link_per_file(self):
            path = self.training.save_weights_external(fresh("external")).result().path
            for answer in self.both(self.rest, "get_external_weights_urls", path):
                self.assertLessEqual({"adapter_config.json", "adapter_model.safetensors"}, answer.urls.keys())
                self.assertGreater(answer.expires, datetime.datetime.now(datetime.timezone.utc))
                sizes = {name: len(urllib.request.urlopen(url, timeout=10).read()) for name, url in answer.urls.items()}
                self.assertTrue(sizes["adapter_config.json"] > 100 and sizes["adapter_model.safetensors"] > 1000, sizes)

    if COPIES:

        def test_copies_belong_to_a_run_of_their_own(self):
            for copy in self.both(self.rest, "copy_weights", self.path, "project-2", ttl_seconds=7200):
                self.assertNotEqual(copy, self.path)
                run = self.rest.get_training_run_by_tinker_path(copy).result()
                self.assertNotEqual(run.training_run_id, self.run_id)
                self.assert_samples(self.service.create_sampling_client(model_path=copy))

    if COUNTS_STORAGE:

        def test_stored_bytes_are_counted(self):
            for answer in self.both(self.rest, "get_current_checkpoint_storage_usage"):
                self.assertGreater(sum(item.checkpoint_count for item in answer.data), 0)
                self.assertGreater(sum(item.size_bytes for item in answer.data), 1000)

    if not IS_NEW:

        def test_archives_have_the_files_of_a_checkpoint(self):
            id = self.path.removeprefix(f"tinker://{self.run_id}/")
            by_id = self.both(self.rest, "get_checkpoint_archive_url", self.run_id, id)
            by_path = self.both(self.rest, "get_checkpoint_archive_url_from_tinker_path", self.path)
            for answer in (*by_id, *by_path):
                content = urllib.request.urlopen(answer.url, timeout=10).read()
                with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                    names = {name.removeprefix("./") for name in archive.getnames()}
                self.assertLessEqual({"adapter_config.json", "adapter_model.safetensors"}, names)


if IS_NEW:

    class Admin(Clients):
        @classmethod
        def setUpClass(cls):
            super().setUpClass()
            cls.admin = tinker.AdminClient()

        def test_the_audit_log_is_of_a_day(self):
            path = self.save()
            self.rest.delete_checkpoint_from_tinker_path(path).result()
            for answer in self.both(self.admin, "get_audit_log"):
                self.assertIn(path, str(answer.entries))
            for answer in self.both(self.admin, "get_audit_log", "all", datetime.date(2026, 1, 15)):
                self.assertEqual(answer.entries, [])

        def test_usage_of_a_past_day_is_empty(self):
            for answer in self.both(self.admin, "get_billing_usage", "2026-01-15T00:00:00Z", "2026-01-16T00:00:00Z"):
                self.assertEqual((answer.data, answer.sessions), ([], {}))

        def test_storage_is_counted_by_project(self):
            self.save()
            for answer in self.both(self.admin, "get_current_checkpoint_storage_usage", "lab"):
                self.assertEqual({item.project_id for item in answer.data}, {"lab"})
            for answer in self.both(self.admin, "get_current_checkpoint_storage_usage", "no such project"):
                self.assertEqual(answer.data, [])
            self.assertIsNotNone(self.admin.get_telemetry())


def missing_methods():
    missing = sorted(METHODS - methods.called)
    return f"no test calls {', '.join(missing)}" if missing else None


if __name__ == "__main__":
    main(check=missing_methods)
