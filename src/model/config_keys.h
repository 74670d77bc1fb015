// Owns the known keys of config.json files, for config.cpp.
#pragma once

#include <string_view>

namespace qrl::model {

// clang-format off

inline constexpr std::string_view kReadKeys[] = {
    "architectures", "attention_bias", "attention_dropout", "bos_token_id", "dtype", "eos_token_id", "head_dim",
    "hidden_act", "hidden_size", "initializer_range", "intermediate_size", "layer_types", "max_position_embeddings",
    "max_window_layers", "mlp_bias", "model_type", "num_attention_heads", "num_hidden_layers", "num_key_value_heads", "pad_token_id",
    "partial_rotary_factor", "quantization_config", "rms_norm_eps", "rope_interleaved", "rope_parameters",
    "rope_scaling", "rope_theta", "sliding_window", "tie_word_embeddings", "torch_dtype", "use_sliding_window",
    "vocab_size"};

/// Keys of transformers without effect on the forward pass. Keys with a leading underscore have none either.
inline constexpr std::string_view kHarmlessKeys[] = {
    "add_cross_attention", "attn_implementation", "bad_words_ids", "begin_suppress_tokens",
    "chunk_size_feed_forward", "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label",
    "is_decoder", "is_encoder_decoder", "label2id", "length_penalty", "max_length",
    "min_length", "name_or_path", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "prefix",
    "pretraining_tp", "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torchscript",
    "transformers_version", "typical_p", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache"};

/// Keys of a mixture of experts, allowed for qwen3_moe alone.
inline constexpr std::string_view kExpertKeys[] = {
    "decoder_sparse_step", "mlp_only_layers", "moe_intermediate_size", "n_shared_experts", "norm_topk_prob", "num_experts",
    "num_experts_per_tok", "num_local_experts", "num_shared_experts", "output_router_logits", "router_aux_loss_coef",
    "shared_expert_intermediate_size"};

/// Keys that change the forward pass of related models: a model with one is refused.
inline constexpr std::string_view kForeignKeys[] = {
    "alibi", "attention_chunk_size", "attention_multiplier", "attention_out_bias", "attn_logit_softcapping",
    "auto_map", "clip_qkv", "embedding_multiplier", "final_logit_softcapping", "layer_norm_eps",
    "layernorm_epsilon", "local_rope_theta", "logit_scale", "logits_scaling", "moe_intermediate_size",
    "no_rope_layers", "norm_type", "num_experts", "num_experts_per_tok", "num_local_experts", "parallel_residual",
    "qk_layernorm", "qk_norm", "qkv_bias", "query_pre_attn_scalar", "residual_multiplier", "rope_local_base_freq",
    "rotary_dim", "rotary_pct", "use_qk_norm", "use_qkv_bias"};

// clang-format on

}  // namespace qrl::model
