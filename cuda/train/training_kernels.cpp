#include "cuda/train/training_kernels.h"

#include <string>

#include "base/error.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

void check(const HeadTransform& transform) {
  QRL_REQUIRE(transform.head_dim > 0 && transform.head_dim % 2 == 0 && transform.head_dim <= kMostHeadDim,
              "trainer.device: cuda", "a head_dim that is even and at most " + std::to_string(kMostHeadDim),
              std::to_string(transform.head_dim), "use trainer.device: cpu");
  QRL_INVARIANT((transform.q_gain == nullptr) == (transform.k_gain == nullptr), "transform of q, k and v",
                "gains for both or neither", "a gain for only one");
}

void check(const ScoreTask& task) {
  QRL_INVARIANT(task.vocab_size > 0 && task.temperature > 0, "log-probs of targets",
                "a vocabulary and a temperature above 0",
                std::to_string(task.vocab_size) + ", " + std::to_string(task.temperature));
}

class DeviceTraining final : public TrainingKernels {
 public:
  explicit DeviceTraining(int device_number) : device_(use_device(device_number)) {}

  void swiglu(const SwigluTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::swiglu(task, on(stream));
  }
  void swiglu_gradient(const SwigluGradientTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::swiglu_gradient(task, on(stream));
  }
  void add_norm(const AddNormTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::add_norm(task, on(stream));
  }
  std::int64_t add_norm_scratch_floats(std::int64_t num_rows, std::int64_t width, bool has_bias) const override {
    return QRL_CUDA_TARGET::add_norm_scratch_floats(num_rows, width, has_bias);
  }
  void add_norm_gradient(const AddNormGradientTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::add_norm_gradient(task, on(stream));
  }
  void transform_heads(const HeadsTask& task, CallersStream stream) const override {
    check(task.transform);
    QRL_CUDA_TARGET::transform_heads(task, on(stream));
  }
  std::int64_t heads_scratch_floats(const HeadTransform& transform) const override {
    check(transform);
    return QRL_CUDA_TARGET::heads_scratch_floats(transform);
  }
  void transform_heads_gradient(const HeadsGradientTask& task, CallersStream stream) const override {
    check(task.transform);
    QRL_CUDA_TARGET::transform_heads_gradient(task, on(stream));
  }
  void score(const ScoreTask& task, CallersStream stream) const override {
    check(task);
    QRL_CUDA_TARGET::score(task, on(stream));
  }
  std::int64_t score_scratch_floats(std::int64_t num_rows, std::int64_t vocab_size) const override {
    return QRL_CUDA_TARGET::score_scratch_floats(num_rows, vocab_size);
  }
  void score_gradient(const ScoreGradientTask& task, CallersStream stream) const override {
    check(task.scored);
    QRL_CUDA_TARGET::score_gradient(task, on(stream));
  }
  void sum_rows(const RowListsTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::sum_rows(task, on(stream));
  }
  void squares(const SquaresTask& task, CallersStream stream) const override {
    QRL_CUDA_TARGET::squares(task, on(stream));
  }
  void adamw(const AdamwTask& task, CallersStream stream) const override { QRL_CUDA_TARGET::adamw(task, on(stream)); }

 private:
  Stream on(CallersStream stream) const {
    enter_device(device_);
    return Stream(stream.handle);
  }

  DeviceFacts device_;
};

}  // namespace

std::unique_ptr<TrainingKernels> make_device_training(int device_number) {
  return std::make_unique<DeviceTraining>(device_number);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
