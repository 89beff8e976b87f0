// The compiled part of the renderers looks for these in libtorch when it is imported. Their
// tokenizers use none of them: this stands in for two gigabytes.

// NOLINTBEGIN(readability-identifier-naming): names of libtorch
extern "C" {
int aoti_torch_aten_full() {
  return 0;
}
int aoti_torch_aten_pad() {
  return 0;
}
int aoti_torch_aten_subtract_Tensor() {
  return 0;
}
int aoti_torch_copy_() {
  return 0;
}
int aoti_torch_delete_tensor_object() {
  return 0;
}
int aoti_torch_device_type_cpu() {
  return 0;
}
int aoti_torch_dtype_bfloat16() {
  return 0;
}
int aoti_torch_dtype_bool() {
  return 0;
}
int aoti_torch_dtype_complex64() {
  return 0;
}
int aoti_torch_dtype_float16() {
  return 0;
}
int aoti_torch_dtype_float32() {
  return 0;
}
int aoti_torch_dtype_float64() {
  return 0;
}
int aoti_torch_dtype_int16() {
  return 0;
}
int aoti_torch_dtype_int32() {
  return 0;
}
int aoti_torch_dtype_int64() {
  return 0;
}
int aoti_torch_dtype_int8() {
  return 0;
}
int aoti_torch_dtype_uint8() {
  return 0;
}
int aoti_torch_empty_strided() {
  return 0;
}
int aoti_torch_get_data_ptr() {
  return 0;
}
int aoti_torch_get_device_type() {
  return 0;
}
int aoti_torch_get_dim() {
  return 0;
}
int aoti_torch_get_dtype() {
  return 0;
}
int aoti_torch_get_numel() {
  return 0;
}
int aoti_torch_get_sizes() {
  return 0;
}
int aoti_torch_get_strides() {
  return 0;
}
int aoti_torch_is_contiguous() {
  return 0;
}
int aoti_torch_item_float64() {
  return 0;
}
int aoti_torch_item_int64() {
  return 0;
}
int aoti_torch_memory_format_contiguous_format() {
  return 0;
}
int aoti_torch_memory_format_preserve_format() {
  return 0;
}
int aoti_torch_new_tensor_handle() {
  return 0;
}
int aoti_torch_scalar_to_tensor_float32() {
  return 0;
}
int aoti_torch_scalar_to_tensor_float64() {
  return 0;
}
int torch_call_dispatcher() {
  return 0;
}
int torch_delete_list() {
  return 0;
}
int torch_list_push_back() {
  return 0;
}
int torch_new_list_reserve_size() {
  return 0;
}
}
// NOLINTEND(readability-identifier-naming)
