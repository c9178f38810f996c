# libtorch is optional (scripts/setup --torch). DIPTYCH_HAS_TORCH: it is there and wanted.
if(NOT DIPTYCH_WITH_TORCH STREQUAL "OFF")
  find_path(DIPTYCH_TORCH_INCLUDE torch/csrc/api/include/torch/torch.h)
  find_library(DIPTYCH_TORCH torch)
  find_library(DIPTYCH_TORCH_CPU torch_cpu)
  find_library(DIPTYCH_C10 c10)
  if(DIPTYCH_TORCH_INCLUDE AND DIPTYCH_TORCH AND DIPTYCH_TORCH_CPU AND DIPTYCH_C10)
    set(DIPTYCH_HAS_TORCH ON)
  elseif(DIPTYCH_WITH_TORCH STREQUAL "ON")
    message(FATAL_ERROR "libtorch was asked for and not found: scripts/setup --torch")
  endif()
endif()

# uses_torch(target): without our warnings and flags, because libtorch's headers are not warning-free.
function(uses_torch target)
  target_include_directories(${target} SYSTEM PRIVATE
    ${DIPTYCH_TORCH_INCLUDE} ${DIPTYCH_TORCH_INCLUDE}/torch/csrc/api/include)
  target_link_libraries(${target} PRIVATE ${DIPTYCH_TORCH} ${DIPTYCH_TORCH_CPU} ${DIPTYCH_C10})
endfunction()
