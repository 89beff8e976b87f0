"""Training and sampling with the official SDK: what is computed is checked, not only that there is an answer."""

import math
import os

import small_torch

small_torch.install()

import numpy as np  # noqa: E402
import tinker  # noqa: E402
from batches import *  # noqa: E402
from case import *  # noqa: E402
from raw import Api  # noqa: E402
from tinker import types  # noqa: E402

IS_NEW = tuple(map(int, tinker.__version__.split("."))) >= (0, 36)
UNTRAINED_NATS = math.log(512)  # of an even guess; a model of random weights is surely wrong now and then
CLOSE = 2e-4  # relative; losses are sums of float32 logprobs


def params(max_tokens=4, stop=(), **others):
    return types.SamplingParams(max_tokens=max_tokens, stop=stop if isinstance(stop, str) else list(stop), **others)


def one(sampling, prompt, parameters):
    return sampling.sample(text(*prompt), 1, parameters).result().sequences[0]


def unload(training):
    """The SDK has no call for it."""
    api = Api(os.environ["TINKER_BASE_URL"])
    assert api.done("unload_model", {"model_id": training.model_id, "type": "unload_model"})["type"] == "unload_model"


class Trained(ServedCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.service = tinker.ServiceClient()
        cls.base = cls.service.create_sampling_client(base_model=BASE_MODEL)

    def new_training(self, rank=8, seed=1, **options):
        return self.service.create_lora_training_client(BASE_MODEL, rank=rank, seed=seed, **options)

    def assert_close(self, value, expected):
        self.assertAlmostEqual(value, expected, delta=CLOSE * max(1.0, abs(expected)))


class Learning(Trained):
    def test_a_batch_is_learnt_by_heart_and_told(self):
        training = self.new_training()
        losses = train(training, 60)
        tokens = sum(datum.model_input.length for datum in batch())
        self.assertGreater(losses[0] / tokens, UNTRAINED_NATS)
        self.assertLess(losses[-1], 0.1 * losses[0])
        path = training.save_weights_for_sampler("learnt").result().path
        for sampling in (
            training.save_weights_and_get_sampling_client(),
            self.service.create_sampling_client(model_path=path),
        ):
            for sentence in SENTENCES:
                told = one(sampling, sentence[:1], params(len(sentence) - 1, temperature=0.0)).tokens
                self.assertEqual(told, sentence[1:])

    def test_sampler_and_trainer_agree_to_the_bit(self):
        training = self.new_training()
        train(training, 5)
        rows = fingerprint(training)
        sampling = training.save_weights_and_get_sampling_client()
        for sentence, row in zip(SENTENCES, rows, strict=True):
            scored = sampling.compute_logprobs(text(*sentence)).result()
            self.assertEqual(scored[1:], row.tolist())

    def test_a_sampler_stays_as_it_was_while_training_goes_on(self):
        training = self.new_training()
        train(training, 3)
        samplers = [
            training.save_weights_and_get_sampling_client(),
            self.service.create_sampling_client(training.save_weights_for_sampler("pinned").result().path),
        ]
        before = [sampler.compute_logprobs(text(*SENTENCES[0])).result() for sampler in samplers]
        train(training, 3)
        after = [sampler.compute_logprobs(text(*SENTENCES[0])).result() for sampler in samplers]
        self.assertEqual(before, after)
        self.assertEqual(before[0], before[1])

    def test_a_new_adapter_changes_nothing(self):
        sampling = self.new_training().save_weights_and_get_sampling_client()
        prompt = text(*SENTENCES[2])
        self.assertEqual(sampling.compute_logprobs(prompt).result(), self.base.compute_logprobs(prompt).result())


class Readouts(Trained):
    PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)

    def sample(self, **readouts):
        return self.base.sample(text(*self.PROMPT), 1, params(temperature=0.0), **readouts).result()

    def test_nothing_is_read_out_that_nobody_asked_for(self):
        answer = self.sample()
        self.assertIsNone(answer.prompt_logprobs)
        self.assertIsNone(answer.topk_prompt_logprobs)

    def test_prompt_logprobs_have_none_for_the_first_token(self):
        values = self.sample(include_prompt_logprobs=True).prompt_logprobs
        self.assertEqual(len(values), len(self.PROMPT))
        self.assertIsNone(values[0])
        self.assertEqual(values, self.base.compute_logprobs(text(*self.PROMPT)).result())

    def test_top_k_of_a_prompt_descend_and_hold_the_flat_values(self):
        answer = self.sample(include_prompt_logprobs=True, topk_prompt_logprobs=512)
        rows = answer.topk_prompt_logprobs
        self.assertIsNone(rows[0])
        for token, flat, row in zip(self.PROMPT[1:], answer.prompt_logprobs[1:], rows[1:], strict=True):
            values = [value for _, value in row]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertEqual(dict(row)[token], flat)
            self.assertAlmostEqual(sum(map(math.exp, values)), 1.0, delta=1e-3)
        short = self.sample(topk_prompt_logprobs=3)
        self.assertIsNone(short.prompt_logprobs)
        self.assertEqual([row and row[:3] for row in rows], short.topk_prompt_logprobs)

    def test_sampled_logprobs_are_those_of_a_prompt_that_goes_on(self):
        sequence = one(self.base, self.PROMPT, params(6, seed=5))
        scored = self.base.compute_logprobs(text(*self.PROMPT, *sequence.tokens)).result()
        np.testing.assert_allclose(sequence.logprobs, scored[len(self.PROMPT) :], atol=1e-5)

    def test_temperature_scales_differences_of_logprobs(self):
        def first_logprobs(temperature):
            parameters = params(1, seed=5, temperature=temperature)
            sequences = self.base.sample(text(*self.PROMPT), 200, parameters).result().sequences
            return {s.tokens[0]: s.logprobs[0] for s in sequences}

        plain, hot = first_logprobs(1.0), first_logprobs(2.0)
        both = sorted(plain.keys() & hot.keys())
        self.assertGreater(len(both), 2)
        for token in both[1:]:
            self.assertAlmostEqual(hot[token] - hot[both[0]], (plain[token] - plain[both[0]]) / 2, delta=1e-4)

    if IS_NEW:

        def test_top_k_of_samples_begin_with_the_greedy_choice(self):
            sequence = self.sample(topk_sample_logprobs=4).sequences[0]
            for token, logprob, row in zip(sequence.tokens, sequence.logprobs, sequence.topk_logprobs, strict=True):
                self.assertEqual(len(row), 4)
                self.assertEqual(row[0][0], token)
                self.assertAlmostEqual(row[0][1], logprob, delta=1e-5)

        def test_chosen_tokens_are_scored_dense_and_sparse(self):
            rows = self.sample(topk_prompt_logprobs=512).topk_prompt_logprobs
            count = len(self.PROMPT) - 1
            wanted = [[token, (token + 1) % 512, -1] for token in self.PROMPT[1:]]
            dense = types.TensorData(data=sum(wanted, []), dtype="int64", shape=[count, 3])
            found = self.sample(target_prompt_logprobs=dense).target_prompt_logprobs
            expected = [dict(row)[t] if t >= 0 else 0.0 for row, ts in zip(rows[1:], wanted, strict=True) for t in ts]
            self.assertEqual(list(found.shape), [count, 3])
            np.testing.assert_allclose(found.data, expected, atol=1e-6)
            sparse = types.TensorData(
                data=[7, 8],
                dtype="int64",
                shape=[count, 2],
                sparse_crow_indices=[0] * (count - 1) + [1, 2],
                sparse_col_indices=[0, 1],
            )
            found = self.sample(target_prompt_logprobs=sparse).target_prompt_logprobs
            np.testing.assert_allclose(found.data, [dict(rows[-2])[7], dict(rows[-1])[8]], atol=1e-6)
            self.assertEqual(list(found.sparse_crow_indices), sparse.sparse_crow_indices)

        def test_other_tokens_are_drawn_at_each_prompt_position(self):
            answer = self.sample(prompt_alt_tokens_k=2, topk_prompt_logprobs=512)
            tokens = np.reshape(answer.prompt_alt_tokens.tokens.data, (-1, 2))
            values = np.reshape(answer.prompt_alt_tokens.logprobs.data, (-1, 2))
            self.assertEqual(tokens.shape, (len(self.PROMPT) - 1, 2))
            self.assertTrue((values <= 0).all())
            # At temperature 0 every draw is the most likely token.
            best = [row[0][0] for row in answer.topk_prompt_logprobs[1:]]
            self.assertEqual(tokens.tolist(), [[token, token] for token in best])

        def test_only_the_end_of_a_prompt_is_scored(self):
            whole = self.sample(include_prompt_logprobs=True).prompt_logprobs
            last = self.sample(include_prompt_logprobs=True, prompt_logprobs_last_n=3).prompt_logprobs
            self.assertEqual(last, [None] * (len(whole) - 3) + whole[-3:])


class Draws(Trained):
    def tokens(self, num_samples=1, prompt=(1, 2, 3), max_tokens=8, **options):
        answer = self.base.sample(text(*prompt), num_samples, params(max_tokens, **options)).result()
        return [sequence.tokens for sequence in answer.sequences]

    def test_a_seed_says_which_tokens(self):
        self.assertEqual(self.tokens(seed=7), self.tokens(seed=7))
        self.assertNotEqual(self.tokens(seed=7), self.tokens(seed=8))
        self.assertNotEqual(self.tokens(), self.tokens())

    def test_samples_of_one_request_differ_and_can_be_repeated(self):
        first = self.tokens(num_samples=4, seed=7)
        self.assertEqual(len({tuple(tokens) for tokens in first}), 4)
        self.assertEqual(first, self.tokens(num_samples=4, seed=7))

    def test_company_changes_nothing(self):
        alone = self.tokens(seed=3, max_tokens=16)
        prompts = [list(range(1, length)) for length in (4, 30, 60, 90, 120, 150, 180)]
        others = [self.base.sample(text(*p), 2, params(20, seed=i)) for i, p in enumerate(prompts)]
        self.assertEqual(self.tokens(seed=3, max_tokens=16), alone)
        self.assertEqual([len(other.result().sequences) for other in others], [2] * len(others))

    def test_the_only_candidate_is_taken(self):
        greedy = self.tokens(temperature=0.0)
        for seed in (1, 2, 3):
            self.assertEqual(self.tokens(seed=seed, top_k=1), greedy)
            self.assertEqual(self.tokens(seed=seed, top_p=1e-9), greedy)
            self.assertEqual(self.tokens(seed=seed, top_p=0.0), greedy)
        self.assertGreater(len({str(self.tokens(seed=seed, top_k=-1)) for seed in range(5)}), 1)

    def test_many_first_requests_are_answered_at_once(self):
        with at_most(30):
            futures = [self.base.sample(text(*range(1, 3 + i)), 1, params(2)) for i in range(64)]
            self.assertEqual({len(future.result().sequences[0].tokens) for future in futures}, {2})


class Stops(Trained):
    PROMPT = (1, 2, 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = one(cls.base, cls.PROMPT, params(24, seed=11)).tokens

    def stopped(self, stop):
        return one(self.base, self.PROMPT, params(24, stop, seed=11))

    def test_an_empty_list_never_stops(self):
        sequence = self.stopped(())
        self.assertEqual((len(sequence.tokens), sequence.stop_reason), (24, "length"))

    def test_a_stop_token_is_the_last_of_the_tokens(self):
        stop = self.whole[5]
        sequence = self.stopped([stop])
        self.assertEqual(sequence.tokens, self.whole[: self.whole.index(stop) + 1])
        self.assertEqual(sequence.stop_reason, "stop")
        self.assertEqual(len(sequence.logprobs), len(sequence.tokens))

    def test_a_stop_string_ends_with_the_token_that_completes_it(self):
        tokenizer = self.base.get_tokenizer()
        texts = [tokenizer.decode(self.whole[:i]) for i in range(len(self.whole) + 1)]
        stop = next(texts[i][-2:] for i in range(6, 24) if texts[i][-2:].isascii() and len(texts[i][-2:]) == 2)
        expected = next(i for i, so_far in enumerate(texts) if stop in so_far)
        for form in (stop, ["no such text", stop]):
            sequence = self.stopped(form)
            self.assertEqual(sequence.tokens, self.whole[:expected])
            self.assertEqual(sequence.stop_reason, "stop")


class Resuming(Trained):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        training = cls.service.create_lora_training_client(BASE_MODEL, rank=8, seed=1)
        train(training, 3)
        cls.path = training.save_state("middle").result().path
        cls.middle = fingerprint(training)
        cls.losses = train(training, 3)
        cls.end = fingerprint(training)

    def test_with_the_optimizer_it_goes_on_to_the_bit(self):
        training = self.service.create_training_client_from_state_with_optimizer(self.path)
        self.assertTrue(same(fingerprint(training), self.middle))
        self.assertEqual(train(training, 3), self.losses)
        self.assertTrue(same(fingerprint(training), self.end))

    def test_without_the_optimizer_only_the_weights_are_the_same(self):
        ends = []
        for _ in range(2):
            training = self.service.create_training_client_from_state(self.path)
            self.assertTrue(same(fingerprint(training), self.middle))
            train(training, 3)
            ends.append(fingerprint(training))
        self.assertFalse(same(ends[0], self.end))
        self.assertTrue(same(*ends))

    def test_a_model_in_use_can_be_taken_back(self):
        training = self.new_training()
        train(training, 1)
        training.forward_backward(batch(), "cross_entropy").result()  # goes with the load
        training.load_state_with_optimizer(self.path).result()
        self.assertEqual(train(training, 3), self.losses)
        self.assertTrue(same(fingerprint(training), self.end))

    def test_what_was_loaded_can_be_saved_again(self):
        training = self.service.create_training_client_from_state_with_optimizer(self.path)
        again = training.save_state("again").result().path
        training = self.service.create_training_client_from_state_with_optimizer(again)
        train(training, 3)
        self.assertTrue(same(fingerprint(training), self.end))


class Losses(Trained):
    TOKENS = SENTENCES[0]
    ADVANTAGES = np.array([1.0, -0.5, 0.0, 2.0, -1.0])
    OFFSETS = np.array([0.0, 0.3, -0.3, -0.1, 0.9])  # of the new logprobs from the old ones

    def values(self, loss, config=None, **inputs):
        """The loss of the policy batch, and its logprobs: new and old ones."""
        training = self.new_training()
        new = fingerprint(training)[0]
        old = (new - self.OFFSETS).astype(np.float32)
        data = [policy_datum(self.TOKENS, old.tolist(), self.ADVANTAGES.tolist(), **inputs)]
        output = training.forward_backward(data, loss, config).result()
        self.assertTrue(same(logprobs(output), [new]))
        self.assertGreater(training.optim_step(ADAM).result().metrics["unclipped_grad_l2:mean"], 0)
        return output.metrics["loss:sum"], new.astype(float), old.astype(float)

    def test_cross_entropy_sums_weighted_logprobs(self):
        training = self.new_training()
        data = [datum(self.TOKENS, [1.0, 0.5, 0.0, -2.0, 3.0]), datum(SENTENCES[1])]
        output = training.forward_backward(data, "cross_entropy").result()
        self.assert_close(output.metrics["loss:sum"], weighted_loss(data, output))
        for given, row, losses in zip(data, logprobs(output), elementwise(output), strict=True):
            np.testing.assert_allclose(losses, -row * given.loss_fn_inputs["weights"].data, rtol=1e-6)

    def test_cross_entropy_without_weights_counts_every_token(self):
        training = self.new_training()
        bare = types.Datum(model_input=text(1, 2), loss_fn_inputs={"target_tokens": [2, 3]})
        output = training.forward_backward([bare], "cross_entropy").result()
        self.assert_close(output.metrics["loss:sum"], -float(np.sum(logprobs(output)[0])))
        self.assertTrue((elementwise(output)[0] > 0).all())
        self.assert_close(float(np.sum(elementwise(output)[0])), output.metrics["loss:sum"])

    def test_cross_entropy_of_several_targets_a_position(self):
        training = self.new_training()
        weights = np.array([[0.25, 0.75], [1.0, -1.0]], np.float32)
        data = types.Datum(
            model_input=text(1, 2),
            loss_fn_inputs={
                "target_tokens": types.TensorData(data=[2, 3, 4, 5], dtype="int64", shape=[2, 2]),
                "weights": types.TensorData.from_numpy(weights),
            },
        )
        output = training.forward_backward([data], "cross_entropy").result()
        rows = logprobs(output)[0]
        self.assertEqual(rows.shape, (2, 2))
        self.assert_close(output.metrics["loss:sum"], -float((rows * weights).sum()))

    def test_weights_of_zero_leave_no_gradient(self):
        training = self.new_training()
        output = training.forward_backward([datum(self.TOKENS, [0.0] * 5)], "cross_entropy").result()
        self.assertEqual(output.metrics["loss:sum"], 0)
        self.assertEqual(elementwise(output)[0].tolist(), [0.0] * 5)
        self.assertTrue((logprobs(output)[0] < 0).all())
        self.assertEqual(training.optim_step(ADAM).result().metrics["unclipped_grad_l2:mean"], 0)

    def test_importance_sampling_weighs_advantages_by_ratios(self):
        loss, new, old = self.values("importance_sampling")
        self.assert_close(loss, -float((np.exp(new - old) * self.ADVANTAGES).sum()))

    def test_ppo_clips_ratios(self):
        for config, low, high in ((None, 0.8, 1.2), ({"clip_low_threshold": 0.9, "clip_high_threshold": 1.01}, 0.9, 1.01)):
            loss, new, old = self.values("ppo", config)
            ratio = np.exp(new - old)
            terms = np.minimum(ratio * self.ADVANTAGES, np.clip(ratio, low, high) * self.ADVANTAGES)
            self.assert_close(loss, -float(terms.sum()))

    def test_cispo_weighs_logprobs_by_clipped_ratios(self):
        for config, low, high in ((None, 0.0, 4.0), ({"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}, 0.8, 1.2)):
            loss, new, old = self.values("cispo", config)
            self.assert_close(loss, -float((np.clip(np.exp(new - old), low, high) * new * self.ADVANTAGES).sum()))

    def test_dro_adds_a_squared_distance(self):
        loss, new, old = self.values("dro", {"beta": 0.05})
        self.assert_close(loss, -float((new * self.ADVANTAGES - 0.025 * (new - old) ** 2).sum()))

    def test_gspo_has_one_ratio_a_sequence(self):
        loss, new, old = self.values("gspo", sequence_ratio_mask=types.TensorData(data=[1.0] * 5, dtype="float32", shape=[5]))
        ratio = math.exp(float(np.mean(new - old)))
        terms = np.minimum(ratio * self.ADVANTAGES, np.clip(ratio, 0.8, 1.2) * self.ADVANTAGES)
        self.assert_close(loss, -float(terms.sum()))

    def test_a_batch_in_parts_is_the_batch(self):
        whole, parts = self.new_training(), self.new_training()
        whole.forward_backward(batch(), "cross_entropy").result()
        for part in batch():
            parts.forward_backward([part], "cross_entropy")
        parts.forward_backward([datum(self.TOKENS, [0.0] * 5)], "cross_entropy")
        norms = [t.optim_step(ADAM).result().metrics["unclipped_grad_l2:mean"] for t in (whole, parts)]
        self.assertEqual(*norms)
        self.assertTrue(same(fingerprint(whole), fingerprint(parts)))

    def test_the_step_of_one_tenant_leaves_the_other_as_it_was(self):
        first, second = self.new_training(), self.new_training(rank=4, seed=2)
        before = fingerprint(first)
        train(second, 2)
        self.assertTrue(same(fingerprint(first), before))

    def test_a_model_that_is_unloaded_leaves_the_others_as_they_were(self):
        alone, beside, leaving = self.new_training(), self.new_training(), self.new_training(seed=2)
        train(alone, 4)
        train(beside, 2)
        train(leaving, 1)
        futures = [beside.forward_backward(batch(), "cross_entropy"), beside.optim_step(ADAM)]
        unload(leaving)
        futures += [beside.forward_backward(batch(), "cross_entropy"), beside.optim_step(ADAM)]
        for future in futures:
            future.result()
        self.assert_refused(lambda: leaving.forward(batch(), "cross_entropy"), leaving.model_id)
        self.assertTrue(same(fingerprint(beside), fingerprint(alone)))

    def test_neighbours_change_nothing(self):
        training = self.new_training()
        alone = training.forward([datum(self.TOKENS)], "cross_entropy").result()
        beside = training.forward([datum(range(1, 100)), datum(self.TOKENS)], "cross_entropy").result()
        self.assertTrue(same(logprobs(alone), logprobs(beside)[1:]))

    def test_tenants_change_nothing(self):
        alone = self.new_training()
        train(alone, 3)
        first, second = self.new_training(), self.new_training(rank=4, seed=2)
        futures = []
        for _ in range(3):
            for training, data in ((first, batch()), (second, [datum(range(1, 50))])):
                futures.append(training.forward_backward(data, "cross_entropy"))
                futures.append(training.optim_step(ADAM))
        for future in futures:
            future.result()
        self.assertTrue(same(fingerprint(first), fingerprint(alone)))

    def test_a_batch_of_several_chunks_comes_back_in_its_order(self):
        training = self.new_training()
        data = [datum([1 + i % 400, 2 + i % 100, 3]) for i in range(1500)]  # clients cut after 1024
        output = training.forward(data, "cross_entropy").result()
        self.assertEqual(len(output.loss_fn_outputs), len(data))
        self.assert_close(output.metrics["loss:sum"], weighted_loss(data, output))
        some = training.forward([data[0], data[1100], data[-1]], "cross_entropy").result()
        rows = logprobs(output)
        self.assertTrue(same(logprobs(some), [rows[0], rows[1100], rows[-1]]))


def neg_ll(logprobs, weights):
    loss = -(logprobs * weights).sum()
    return loss, {"custom/neg_ll:sum": loss}


def neg_ll_of_batch(data, rows):
    return sum(-row.sum() for row in rows), {}


class CustomLosses(Trained):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        training = cls.service.create_lora_training_client(BASE_MODEL, rank=8, seed=1)
        cls.losses = train(training, 2)
        cls.end = fingerprint(training)

    def assert_learns_the_same(self, loss):
        training = self.new_training()
        for expected in self.losses:
            output = training.forward_backward_custom(batch(), loss).result()
            self.assert_close(output.metrics["loss:sum"], expected)
            training.optim_step(ADAM).result()
        for ours, theirs in zip(fingerprint(training), self.end, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5)

    def test_a_function_learns_as_the_loss_it_stands_for(self):
        self.assert_learns_the_same(neg_ll_of_batch)

    if IS_NEW:

        def test_a_graph_learns_as_the_loss_it_stands_for(self):
            self.assert_learns_the_same(self.service.create_custom_loss(neg_ll, {"logprobs": 1, "weights": 1}).result())


class Optimizers(Trained):
    def test_a_step_without_gradients_counts_but_moves_nothing_yet(self):
        training = self.new_training()
        before = fingerprint(training)
        self.assertEqual(training.optim_step(ADAM).result().metrics["unclipped_grad_l2:mean"], 0)
        self.assertTrue(same(fingerprint(training), before))

    def test_clipping_reports_the_norm_that_was(self):
        plain, clipped = self.new_training(), self.new_training()
        norms = []
        for training, limit in ((plain, 0.0), (clipped, 0.5)):
            training.forward_backward(batch(), "cross_entropy").result()
            step = training.optim_step(types.AdamParams(learning_rate=1e-2, grad_clip_norm=limit)).result()
            norms.append(step.metrics["unclipped_grad_l2:mean"])
        self.assertEqual(*norms)

    if IS_NEW:

        def test_an_optimizer_that_is_not_served_is_refused_at_once(self):
            self.assert_refused(lambda: self.new_training(optimizer=types.DimuonOptimizerConfig()), "dimuon", "adamw")
            training = self.new_training()
            before = fingerprint(training)
            self.assert_refused(lambda: training.optim_step(types.DimuonParams(learning_rate=0.05)), "dimuon")
            self.assertTrue(same(fingerprint(training), before))


class Errors(Trained):
    """Each is told at once, names what is wrong, and leaves the model as it was."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.training = cls.service.create_lora_training_client(BASE_MODEL, rank=8, seed=1)
        cls.first = fingerprint(cls.training)

    def tearDown(self):
        self.assertTrue(same(fingerprint(self.training), self.first), "the model goes on as if nothing had been")

    def assert_pass_refused(self, data, *parts, loss="cross_entropy", config=None):
        self.assert_refused(
            lambda: self.training.forward_backward(data, loss, config), *parts, kind=tinker.RequestFailedError
        )

    def test_an_unknown_loss(self):
        self.assert_pass_refused(batch(), "no_such_loss", loss="no_such_loss")

    def test_a_loss_that_this_server_does_not_have(self):
        self.assert_pass_refused([policy_datum([1, 2], [-1.0], [1.0])], "stable_reinforce", loss="stable_reinforce")

    def test_an_unknown_setting_of_a_loss(self):
        self.assert_pass_refused(batch(), "no_such_setting", config={"no_such_setting": 1.0})
        data = [policy_datum([1, 2], [-1.0], [1.0])]
        self.assert_pass_refused(data, "clip_lower", loss="ppo", config={"clip_lower": 1.0})

    def test_a_tensor_of_the_wrong_length(self):
        data = types.Datum(model_input=text(1, 2, 3), loss_fn_inputs={"target_tokens": [2, 3, 4], "weights": [1.0]})
        self.assert_pass_refused([data], "weights")

    def test_targets_of_another_length_than_the_input(self):
        data = types.Datum(model_input=text(1, 2, 3), loss_fn_inputs={"target_tokens": [2], "weights": [1.0]})
        self.assert_pass_refused([data], "target_tokens")

    def test_a_missing_tensor(self):
        self.assert_pass_refused([datum([1, 2, 3])], "advantages", loss="ppo")
        self.assert_pass_refused([types.Datum(model_input=text(1), loss_fn_inputs={})], "target_tokens")

    def test_a_tensor_that_the_loss_does_not_have(self):
        extra = types.TensorData(data=[1.0, 1.0], dtype="float32", shape=[2])
        self.assert_pass_refused([datum([1, 2, 3], mask=extra)], "mask")

    def test_a_token_beyond_the_vocabulary(self):
        self.assert_pass_refused([datum([1, 99999, 3])], "99999")
        self.assert_refused(lambda: self.base.sample(text(1, 99999), 1, params()), "99999")

    def test_an_empty_input(self):
        data = types.Datum(model_input=text(), loss_fn_inputs={"target_tokens": [], "weights": []})
        self.assert_refused(lambda: self.training.forward_backward([data], "cross_entropy"), "no tokens")

    def test_a_name_that_no_path_can_have(self):
        for name, part in *((name, name) for name in ("a/b", "..", "a b", "ä", "a%c")), ("x" * 256, "256"):
            for save in (self.training.save_state, self.training.save_weights_for_sampler):
                self.assert_refused(lambda: save(name), part, kind=tinker.RequestFailedError)
        self.assert_refused(lambda: self.training.save_state(""), "name", kind=tinker.RequestFailedError)

    def test_a_name_that_is_taken(self):
        self.training.save_state("taken").result()
        self.assert_refused(lambda: self.training.save_state("taken"), "taken", kind=tinker.RequestFailedError)
        self.assertTrue(self.training.save_state("taken", overwrite=True).result().path.endswith("/weights/taken"))

    def test_a_life_out_of_range(self):
        for ttl in (5, -1, 0, 10**12):
            save = self.training.save_state
            self.assert_refused(lambda: save("late", ttl_seconds=ttl), ttl, kind=tinker.RequestFailedError)

    def test_an_unknown_model(self):
        create = self.service.create_lora_training_client
        self.assert_refused(lambda: create("no/such-model"), "no/such-model", BASE_MODEL)
        self.assert_refused(lambda: self.service.create_sampling_client(base_model="no/such-model"), "no/such-model")

    def test_an_adapter_that_cannot_be(self):
        for rank in (0, -1, 10**6):
            self.assert_refused(lambda: self.service.create_lora_training_client(BASE_MODEL, rank=rank), "rank", rank)

    def test_an_unknown_path(self):
        run = self.training.model_id
        for path in (f"tinker://{run}/weights/none", "tinker://nobody:train:0/weights/none"):
            self.assert_refused(lambda: self.service.create_training_client_from_state(path), path)
            self.assert_refused(lambda: self.service.create_training_client_from_state_with_optimizer(path), path)
            self.assert_refused(lambda: self.service.create_sampling_client(model_path=path), path)
            self.assert_refused(lambda: self.training.load_state(path), path)

    def test_weights_that_cannot_be_trained_on(self):
        path = self.training.save_weights_for_sampler("for-sampler").result().path
        create = self.service.create_training_client_from_state_with_optimizer
        self.assert_refused(lambda: create(path), path)

    def test_more_tokens_than_the_model_can_read(self):
        limit = self.service.get_server_capabilities().supported_models[0].max_context_length
        prompt = text(*([1] * (limit + 1)))
        self.assert_refused(lambda: self.base.sample(prompt, 1, params(1)), limit)
        data = types.Datum(model_input=prompt, loss_fn_inputs={"target_tokens": [1] * (limit + 1)})
        self.assert_pass_refused([data], limit)

    def test_sampling_parameters_that_make_no_sense(self):
        for name, value in (("max_tokens", 0), ("temperature", -1.0), ("top_p", 1.5), ("top_p", -0.1), ("top_k", -7)):
            parameters = params(**{"max_tokens": 2, name: value})
            self.assert_refused(lambda: self.base.sample(text(1), 1, parameters), name)
        self.assert_refused(lambda: self.base.sample(text(1), 0, params()), "num_samples")

    def test_an_image(self):
        image = types.ImageChunk(data=b"\x89PNG\r\n\x1a\n", format="png", expected_tokens=16)
        prompt = types.ModelInput(chunks=[image])
        self.assert_refused(lambda: self.base.sample(prompt, 1, params()), "not text")
        data = types.Datum(model_input=prompt, loss_fn_inputs={"target_tokens": [1] * 16})
        self.assert_pass_refused([data], "not text")


if __name__ == "__main__":
    main()
