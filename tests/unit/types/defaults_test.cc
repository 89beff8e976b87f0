// The defaults that go out on the wire, or that stand for what a server left out.

#include <optional>

#include <gmock/gmock.h>

#include "tinker/types/checkpoint.h"
#include "tinker/types/client_config.h"
#include "tinker/types/model.h"
#include "tinker/types/optimizer.h"
#include "tinker/types/sample.h"
#include "tinker/types/sampling_params.h"

namespace tinker::defaults_test {
namespace {

using ::testing::VariantWith;

// PROTOCOL 7.4
TEST(Defaults, OfSamplingParams) {
  const SamplingParams params;

  EXPECT_EQ(params.max_tokens, std::nullopt);
  EXPECT_EQ(params.seed, std::nullopt);
  EXPECT_EQ(params.stop, std::nullopt);
  EXPECT_EQ(params.temperature, 1.0);
  EXPECT_EQ(params.top_k, -1);
  EXPECT_EQ(params.top_p, 1.0);
}

// PROTOCOL 7.5
TEST(Defaults, OfLoraConfig) {
  const LoraConfig config;

  EXPECT_EQ(config.seed, std::nullopt);
  EXPECT_TRUE(config.train_unembed);
  EXPECT_TRUE(config.train_mlp);
  EXPECT_TRUE(config.train_attn);
}

// PROTOCOL 7.6
TEST(Defaults, OfAdamParams) {
  const AdamParams params;

  EXPECT_EQ(params.learning_rate, 0.0001);
  EXPECT_EQ(params.beta1, 0.9);
  EXPECT_EQ(params.beta2, 0.95);
  EXPECT_EQ(params.eps, 1e-12);
  EXPECT_EQ(params.weight_decay, 0.0);
  EXPECT_EQ(params.grad_clip_norm, 0.0);
}

// PROTOCOL 7.13
TEST(Defaults, OfDimuonParams) {
  const DimuonParams params;

  EXPECT_EQ(params.grad_clip_norm, 0.0);
  EXPECT_EQ(params.beta1, 0.9);
}

// PROTOCOL 7.12
TEST(Defaults, OfTheOptimizerIsAdamW) {
  EXPECT_THAT(CreateModelRequest().optimizer_config,
              VariantWith<AdamOptimizerConfig>(AdamOptimizerConfig()));
  EXPECT_THAT(OptimStepRequest().optim_params, VariantWith<AdamParams>(AdamParams()));
  EXPECT_EQ(DimuonOptimizerConfig().version, 1);
}

// PROTOCOL 7.7
TEST(Defaults, OfACheckpoint) {
  const Checkpoint checkpoint;

  EXPECT_EQ(checkpoint.size_bytes, std::nullopt);
  EXPECT_FALSE(checkpoint.is_public);
  EXPECT_EQ(checkpoint.user_metadata, std::nullopt);
  EXPECT_EQ(checkpoint.expires_at, std::nullopt);
}

// PROTOCOL 7.9
TEST(Defaults, OfATrainingRun) {
  const TrainingRun run;

  EXPECT_FALSE(run.corrupted);
  EXPECT_EQ(run.lora_rank, std::nullopt);
  EXPECT_EQ(run.last_checkpoint, std::nullopt);
  EXPECT_EQ(run.last_sampler_checkpoint, std::nullopt);
  EXPECT_EQ(run.user_metadata, std::nullopt);
}

// PROTOCOL 9.18
TEST(Defaults, OfASampleRequest) {
  const SampleRequest request;

  EXPECT_EQ(request.num_samples, 1);
  EXPECT_EQ(request.prompt_logprobs, std::nullopt);
  EXPECT_EQ(request.topk_prompt_logprobs, 0);
  EXPECT_EQ(request.topk_sample_logprobs, 0);
  EXPECT_EQ(request.target_prompt_logprobs, std::nullopt);
  EXPECT_EQ(request.prompt_alt_tokens_k, 0);
  EXPECT_EQ(request.prompt_logprobs_last_n, std::nullopt);
  EXPECT_EQ(request.record_stability_info, std::nullopt);
}

// PROTOCOL 9.1; the effects are those of BEHAVIOUR 2.
TEST(Defaults, OfTheClientConfig) {
  const ClientConfigResponse config;

  EXPECT_FALSE(config.pjwt_auth_enabled);
  EXPECT_EQ(config.credential_default_source, "api_key");
  EXPECT_EQ(config.sample_dispatch_bytes_semaphore_size, 10 * 1024 * 1024);
  EXPECT_EQ(config.inflight_response_bytes_semaphore_size, 50 * 1024 * 1024);
  EXPECT_TRUE(config.parallel_fwdbwd_chunks);
  EXPECT_FALSE(config.proto_compress_fwdbwd);
  EXPECT_EQ(config.fwdbwd_max_chunk_len, 1024);
  EXPECT_EQ(config.fwdbwd_max_chunk_bytes_count, 5'000'000);
  EXPECT_EQ(config.fwdbwd_dispatch_bytes_semaphore_size, 50 * 1000 * 1000);
  EXPECT_EQ(config.billing_exception_max_pause_duration_sec, 3600);
  EXPECT_FALSE(config.sample_no_retries);
  EXPECT_TRUE(config.sample_enable_stuck_detection);
  EXPECT_EQ(config.sample_max_concurrent_requests, 2000);
  EXPECT_TRUE(config.use_pyqwest_transport);
  EXPECT_FALSE(config.create_model_via_load_weights);
  EXPECT_FALSE(config.sample_use_retrieve_futures);
  EXPECT_FALSE(config.custom_loss_server_side);
  EXPECT_FALSE(config.sample_join_sampling_session);
}

// PROTOCOL 9.2
TEST(Defaults, OfTheDynamicClientConfig) {
  const ClientDynamicConfigResponse config;

  EXPECT_EQ(config.refresh_interval_sec, 300);
  EXPECT_FALSE(config.sample_cancel_enabled);
  EXPECT_EQ(config.sample_cancel_max_batch_size, 64);
}

}  // namespace
}  // namespace tinker::defaults_test
