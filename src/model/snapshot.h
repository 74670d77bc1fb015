// Owns what the learner publishes and the decoder reads in place: quantized weights in the kernels' form, and the
// policy version.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/buffer.h"
#include "model/adapter.h"
#include "model/block.h"
#include "model/config.h"
#include "model/gain_noise.h"
#include "model/int8_profile.h"
#include "model/weights.h"
#include "ops/linear.h"
#include "quant/format.h"

namespace qrl::model {

struct SnapshotFormats {
  SnapshotFormats(quant::Format linear_) : linear(linear_) {}  // NOLINT: a format alone is the common case
  quant::Format linear;                                        ///< of q, k, v, o, gate, up and down
  /// Exempt modules, which stay bf16: patterns (* and ?) of a module's whole name or its last part. Examples:
  /// "model.layers.0.mlp.down_proj", "down_proj". "lm_head" and "embed_tokens" are allowed, although `linear` never
  /// applies to them.
  std::vector<std::string> ignore;
  bool f32_lm_head = false;   ///< else bf16, or fp32 when `linear` is
  bool int8_lm_head = false;  ///< scales per token and per output; the learner keeps its own bf16 or fp32 lm_head
  LoraConfig lora = {};
  quant::Rotation rotation = {};    ///< for inputs of matrices in `linear`, if that has scales
  bool rotates_if_it_fits = false;  ///< else a model that `rotation` does not fit is an input error
};

/// Returns the rotation of a snapshot of this model: formats.rotation, or none where `linear` has no scales. Also none
/// if it does not fit all inputs and formats.rotates_if_it_fits. Throws as check_formats does.
quant::Rotation fitting_rotation(const ModelConfig& config, const SnapshotFormats& formats);

/// One transformer block in the kernels' form: fp32 gains, packed matrices. Gains that the model lacks are empty.
struct LayerSnapshot : Block<base::Buffer, ops::PackedLinear> {
  Block<std::monostate, MatrixAdapter> adapters;  ///< empty for a matrix without one
};

/// One tensor, described for users.
struct SnapshotTensor {
  std::string name;            ///< "layers.0.qkv"
  std::string what;            ///< "int8 [80, 24], scales [1, 80] F32"
  const void* data = nullptr;  ///< equal for readers of the same memory
  bool is_gain = false;        ///< else embedding, linear layer or lm_head
};

/// Error against the master.
struct WeightError {
  std::string weight;  ///< Hugging Face name; a tied lm_head has the embedding's
  quant::Format format = quant::Format::f32;
  quant::FormatError error;
};

/// Throws for values that are not finite: an input error for loaded weights (version 0), else a guard error.
[[noreturn]] void fail_broken(const std::string& where, std::int64_t version);

/// Throws an input error for a pattern in `formats.ignore` that fits no module, or only some modules of one matrix (q,
/// k and v; gate and up). Also throws if all linear layers are exempt, or if a matrix's inputs are not whole rotation
/// blocks.
void check_formats(const ModelConfig& config, const SnapshotFormats& formats);

class DeviceWeights;

/// A published policy. Buffers are allocated once and `publish` rewrites them in place. No reader may be in a forward
/// pass meanwhile; readers check that the version has not changed.
class Snapshot {
 public:
  /// Throws as check_formats and check_lora do.
  Snapshot(const ModelConfig& config, const SnapshotFormats& formats);

  /// Quantizes int8 layers by this profile of the same model from the next publish on, with its factors folded into the
  /// norms. Null: scales from the weights themselves.
  void use_profile(std::shared_ptr<const Int8Profile> profile) { profile_ = std::move(profile); }

  /// Adds this noise to all norms' gains from the next publish on, anew for each version. Host memory only.
  void use_gain_noise(const GainNoise& noise) { noise_ = noise; }

  /// Quantizes and packs `masters` (fp32 views by name) on all threads, as policy version `version`. Throws by
  /// fail_broken for a weight that is not finite, with its name.
  void publish(const WeightViews& masters, std::int64_t version);
  /// Same, for weights that are not in memory: reads one fp32 tensor at a time.
  void publish(const WeightSource& source, std::int64_t version);

  /// Rewrites only the adapters (and, with train_norms, the gains) from the tensors of adapter_specs, fp32 by name. The
  /// base, which an earlier publish wrote, stays in host memory and on a device. Throws by fail_broken for a weight
  /// that is not finite.
  void publish_adapters(const WeightViews& adapters, std::int64_t version);

  /// Publishes in a device's memory alone, like publish or, with adapters, publish_adapters. Afterwards reading the
  /// host's tensors is an internal error until the next publish to the host.
  class DeviceWriter {
   public:
    /// `device` holds this snapshot's weights. `snapshot` and `device` must outlive this.
    DeviceWriter(Snapshot& snapshot, DeviceWeights& device, std::int64_t version);
    /// Writes some of the weights (with adapters: of adapter_specs), fp32 by name in the device's memory. Blocks.
    void write(const WeightViews& masters);
    /// Completes `version` after the last weight. Throws by fail_broken if one was not finite.
    void finish();

   private:
    Snapshot& snapshot_;
    DeviceWeights& device_;
    std::int64_t version_;
    std::vector<WeightSpec> specs_;
    std::map<std::string, quant::Format> formats_;  ///< of matrices
    std::size_t num_written_ = 0;
    std::string broken_;
  };

  const ModelConfig& config() const { return config_; }
  quant::Format format() const { return format_; }  ///< of the linear layers that are not exempt
  const quant::Rotation& rotation() const { return rotation_; }
  const LoraConfig& lora() const { return lora_; }
  std::int64_t version() const { return version_; }  ///< −1 before the first publish
  /// Counts publishes of all weights to the host: equal numbers mean an equal base of adapters.
  std::int64_t base_number() const { return base_number_; }
  /// bf16, or fp32 when format() is.
  const base::Buffer& embedding_VD() const { return here(embedding_VD_); }
  const base::Buffer& final_norm_D() const { return here(final_norm_D_); }  ///< fp32
  const LayerSnapshot& layer(std::int64_t idx) const { return here(layers_[static_cast<std::size_t>(idx)]); }
  /// Same without the check, for formats and shapes alone.
  const LayerSnapshot& layer_form(std::int64_t idx) const { return layers_[static_cast<std::size_t>(idx)]; }
  /// bf16, fp32 or int8; packed separately even when tied.
  const ops::PackedLinear& lm_head() const { return here(lm_head_); }
  std::size_t num_bytes() const;

  /// In the order of the forward pass.
  std::vector<SnapshotTensor> tensors() const;

  /// Returns the error of every matrix against the published `masters`, in order. Masters are first scaled by a
  /// profile's factors and rotated, as the matrices are. A matrix whose master is missing has an empty name.
  std::vector<WeightError> format_errors(const WeightViews& masters) const;
  /// Same, with masters read a few at a time by one thread. `read` returns an empty buffer for a missing one.
  using ReadMaster = std::function<base::Buffer(const std::string& weight)>;
  std::vector<WeightError> format_errors(const ReadMaster& read) const;

 private:
  class Writer;
  /// In the order of the forward pass.
  template <class Visit>
  void visit_gains(const Visit& visit);
  /// Adds this version's noise to the gains after a publish: to the new ones if `are_new`, else to the last ones
  /// without their noise.
  void finish_gains(bool are_new, std::int64_t version);
  /// Throws an internal error if the host lacks the version's tensors.
  template <class Tensor>
  const Tensor& here(const Tensor& tensor) const {
    QRL_INVARIANT(!is_elsewhere_, "snapshot", "weights in host memory",
                  "version " + std::to_string(version_) + " on a device alone");
    return tensor;
  }

  ModelConfig config_;
  quant::Format format_;
  quant::Rotation rotation_;
  LoraConfig lora_;
  std::int64_t version_ = -1, base_number_ = 0;
  bool is_elsewhere_ = false;  ///< the version exists on a device alone
  std::shared_ptr<const Int8Profile> profile_;
  GainNoise noise_;
  std::vector<float> gains_;  ///< all norms' gains without noise; empty until noise is used
  base::Arena matrices_;
  base::Buffer embedding_VD_, final_norm_D_;
  std::vector<LayerSnapshot> layers_;
  ops::PackedLinear lm_head_;
};

/// Format of A, B and their inputs: bf16, or fp32 when the linear layers are.
quant::Format adapter_format(const Snapshot& snapshot);
/// Returns whether `ignore` exempts some linear layer.
bool has_exempt_layers(const Snapshot& snapshot);

}  // namespace qrl::model
