#include "client/batch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "async/child_scope.h"
#include "base/strings.h"
#include "client/report.h"
#include "client/requests.h"
#include "http/content_coding.h"
#include "types/loss_inputs.h"
#include "wire/proto.h"

namespace tinker::client {

using async::Task;

namespace {

constexpr std::int64_t kLarge = 65'536;
constexpr int kZstdLevel = 3;

/// The body of a request, compressed if the server wants that (PROTOCOL 9.12).
Result<http::Body> encode(const ForwardBackwardRequest& request, bool is_compressed) {
  TINKER_TRY(std::string body, wire::encode_proto(request));
  if (is_compressed) {
    TINKER_TRY(body, http::zstd_compress(body, kZstdLevel));
  }
  return std::make_shared<const std::string>(std::move(body));
}

}  // namespace

Result<void> check_batch(const std::vector<Datum>& data, const OpenEnum<LossFn>& loss) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto& chunks = data[i].model_input.chunks;
    const auto is_pointer = [](const ModelInputChunk& chunk) {
      return std::holds_alternative<ImageAssetPointerChunk>(chunk);
    };
    if (std::ranges::any_of(chunks, is_pointer)) {
      return Error{
          .code = ErrorCode::invalid_argument,
          .message = base::concat("data[",
                                  i,
                                  "].model_input: an image_asset_pointer cannot be trained "
                                  "on; give the image itself")};
    }
  }
  // Of losses that only the server knows, the data are checked as those of custom ones.
  return detail::check_batch(
      data, loss.known().value_or(LossFn::custom), detail::LossInputRules::any_server);
}

Batch::Batch(std::shared_ptr<TrainingCore> core,
             std::vector<Datum> data,
             const std::vector<Chunk>& chunks,
             IdRange range,
             const BatchSpec& spec)
    : core_(std::move(core)),
      name_(spec.forward_only ? "forward" : "forward_backward"),
      request_type_(spec.forward_only ? "Forward" : "ForwardBackward"),
      trace_(spec.trace) {
  auto next = std::make_move_iterator(data.begin());
  for (const auto& chunk : chunks) {
    const auto end = next + static_cast<std::ptrdiff_t>(chunk.count);
    const auto id = range.first + std::ssize(parts_);
    parts_.push_back(
        {.request = {.model_id = core_->model_id,
                     .seq_id = id + 1,
                     .data = std::vector<Datum>(next, end),
                     .loss_fn = spec.loss_fn,
                     .loss_fn_config = spec.config,
                     .forward_only = spec.forward_only},
         .chunk = chunk,
         .promise = Promise<ForwardBackwardOutput>(core_->session()->runtime->callbacks())});
    next = end;
  }
}

std::vector<Future<ForwardBackwardOutput>> Batch::futures() {
  std::vector<Future<ForwardBackwardOutput>> out;
  const auto& loop = core_->session()->runtime->loop();
  for (auto& part : parts_) {
    out.push_back(part.promise.future());
    part.promise.on_cancel([weak = weak_from_this(), loop] {
      loop->post([weak] {
        if (const auto self = weak.lock()) {
          const Error reason = {.code = ErrorCode::cancelled, .message = "cancelled by the caller"};
          const auto now = self->session()->now();
          self->scope_->cancel(self->scope_->with_cause(reason, now));
        }
      });
    });
  }
  return out;
}

Task<> Batch::drive(std::shared_ptr<Batch> self, std::shared_ptr<Sequencer::Turn> turn) {
  self->turn_ = std::move(turn);
  auto running = async::in_child_scope(self->scope_, run(self));
  const auto result = co_await std::move(running);
  if (!result.ok()) self->end_all(result.error());
  self->turn_.reset();
  co_return result;
}

Task<> Batch::run(std::shared_ptr<Batch> self) {
  auto entering = self->turn_->enter();
  if (const auto entered = co_await std::move(entering); !entered.ok()) {
    // A call that is cancelled while it waits is as if it had never been made.
    if (entered.error().code == ErrorCode::deadline_exceeded) self->turn_->fail(entered.error());
    co_return entered.error();
  }
  auto submitting = submit_all(self);
  if (const auto submitted = co_await std::move(submitting); !submitted.ok()) {
    self->turn_->fail(submitted.error());
    if (self->scope_->is_cancelled()) co_return self->scope_->reason();
    self->end_unsent(not_sent("another part of the batch", submitted.error()));
  }
  self->turn_->leave();
  for (auto& poll : self->polls_) {
    auto wait = async::until(std::move(poll));
    TINKER_CO_TRY(co_await wait);
  }
  co_return Result<void>();
}

Task<> Batch::submit_all(std::shared_ptr<Batch> self) {
  const auto& session = self->core_->session();
  const std::size_t count = self->parts_.size();
  if (count == 1 || !session->config.parallel_fwdbwd_chunks) {
    for (std::size_t i = 0; i < count; ++i) {
      auto one = submit(self, i);
      TINKER_CO_TRY(co_await std::move(one));
    }
    co_return Result<void>();
  }
  std::vector<Future<void>> others;
  for (std::size_t i = 1; i < count; ++i) {
    others.push_back(session->runtime->spawn(self->scope_, submit(self, i)));
  }
  Result<void> outcome;
  for (auto& other : others) {
    auto wait = async::until(std::move(other));
    if (const auto sent = co_await wait; !sent.ok() && outcome.ok()) outcome = sent;
  }
  if (!outcome.ok()) co_return outcome;
  auto first = submit(self, 0);
  co_return co_await std::move(first);
}

Task<> Batch::submit(std::shared_ptr<Batch> self, std::size_t index) {
  const auto& session = self->core_->session();
  const auto started = session->now();
  auto sending = send(self, index);
  const auto accepted = co_await std::move(sending);
  if (!accepted.ok()) {
    const Error error = Error(accepted.error()).with_context(self->where(self->parts_[index]));
    self->end(index, error);
    co_return error;
  }
  self->parts_[index].is_sent = true;
  const Submission submission = {.name = self->name_,
                                 .request_type = self->request_type_,
                                 .call = {.trace = self->trace_},
                                 .observer = self->core_->observer};
  self->polls_.push_back(session->runtime->spawn(
      self->scope_, poll(self, index, poll_request(*session, submission, *accepted, started))));
  co_return Result<void>();
}

Task<UntypedApiFuture> Batch::send(std::shared_ptr<Batch> self, std::size_t index) {
  const auto& session = self->core_->session();
  const std::int64_t bytes = self->parts_[index].chunk.bytes;
  auto admission = session->fwdbwd_bytes.acquire(bytes);
  TINKER_CO_TRY(const auto permit, co_await admission);

  const bool is_compressed = session->config.proto_compress_fwdbwd;
  auto request = std::move(self->parts_[index].request);
  Result<http::Body> body = http::Body();
  if (bytes <= kLarge) {
    body = encode(request, is_compressed);
  } else {
    auto encoding = session->runtime->offload(
        [request = std::move(request), is_compressed] { return encode(request, is_compressed); });
    auto wait = async::until(std::move(encoding));
    body = co_await wait;
  }
  if (!body.ok()) co_return body.error();
  api::Call call = {.path = "/api/v1/forward_backward",
                    .body = *std::move(body),
                    .pool = api::PoolKind::train,
                    .trace = self->trace_};
  call.headers.add("Content-Type", "application/x-protobuf");
  if (is_compressed) call.headers.add("Content-Encoding", "zstd");
  auto calling = call_with_retries<UntypedApiFuture>(session, self->name_, std::move(call));
  co_return co_await std::move(calling);
}

Task<> Batch::poll(std::shared_ptr<Batch> self, std::size_t index, session::PollRequest request) {
  auto polling = session::poll<ForwardBackwardOutput>(self->core_->session(), std::move(request));
  auto output = co_await std::move(polling);
  if (!output.ok() && !self->scope_->is_cancelled()) {
    output = std::move(output).error().with_context(self->where(self->parts_[index]));
    self->turn_->fail(output.error());
  }
  self->end(index, std::move(output));
  co_return Result<void>();
}

void Batch::end(std::size_t index, Result<ForwardBackwardOutput> result) {
  parts_[index].is_ended = true;
  parts_[index].promise.set(std::move(result));
}

void Batch::end_unsent(const Error& reason) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].is_sent && !parts_[i].is_ended) end(i, reason);
  }
}

void Batch::end_all(const Error& reason) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].is_ended) end(i, reason);
  }
}

std::string Batch::where(const Part& part) const {
  if (parts_.size() == 1) return name_;
  const auto last = part.chunk.first + part.chunk.count - 1;
  return base::concat(name_, ", data[", part.chunk.first, "] to data[", last, "]");
}

namespace {

Task<ForwardBackwardOutput> drive_and_combine(std::shared_ptr<Batch> batch,
                                              std::shared_ptr<Sequencer::Turn> turn) {
  auto futures = batch->futures();
  auto driving = Batch::drive(batch, std::move(turn));
  const auto driven = co_await std::move(driving);
  std::optional<Error> failure;
  std::vector<ForwardBackwardOutput> parts;
  for (auto& future : futures) {
    auto part = future.get(std::chrono::nanoseconds(0));
    if (part.ok()) {
      parts.push_back(*std::move(part));
    } else if (!failure || failure->code == ErrorCode::predecessor_failed) {
      failure = std::move(part).error();
    }
  }
  if (failure) co_return *std::move(failure);
  if (!driven.ok()) co_return driven.error();
  co_return combine(std::move(parts));
}

}  // namespace

Task<ForwardBackwardOutput> run_batch(std::shared_ptr<Batch> batch,
                                      std::shared_ptr<Sequencer::Turn> turn) {
  const auto session = batch->session();
  std::string name = batch->name();
  return reported(session, std::move(name), drive_and_combine(std::move(batch), std::move(turn)));
}

}  // namespace tinker::client
