# Enables CUDA if a toolkit of version 12 or later is found, and sets RONDO_HAVE_CUDA; otherwise
# RONDO_CUDA_MISSING gives the reason. CMAKE_CUDA_ARCHITECTURES, or CUDAARCHS in the environment,
# chooses the GPUs, as in any project; a single one makes the build quick.
set(RONDO_HAVE_CUDA OFF)
set(RONDO_CUDA_MISSING "")

if(NOT RONDO_WITH_CUDA)
  set(RONDO_CUDA_MISSING "switched off by RONDO_WITH_CUDA")
elseif(RONDO_SANITIZE)
  # The sanitizers check host code only; code that devices share with the host is still tested.
  set(RONDO_CUDA_MISSING "left out under sanitizers")
else()
  # In CMake 3.25 compatibility mode, a target that toolkits from 13 on do not have is deprecated.
  set(minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit 12 QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${minimum})
  if(NOT CUDAToolkit_FOUND)
    set(RONDO_CUDA_MISSING "no toolkit, or one older than 12")
  else()
    # enable_language() ends the build if a compiler does not work; check_language() tries it first.
    # The toolkit's own nvcc need not be in PATH. An earlier failure may be fixed by now.
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER CACHE)
    endif()
    if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(RONDO_HAVE_CUDA ON)
    else()
      set(RONDO_CUDA_MISSING "no nvcc that works (see CMakeFiles/CMakeError.log)")
    endif()
  endif()
endif()

if(RONDO_HAVE_CUDA)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    # PTX of the newest architecture, for GPUs after it.
    set(architectures "80-real;90-real;100")
    if(CUDAToolkit_VERSION VERSION_LESS 12.8)
      set(architectures "80-real;90")
    endif()
    set(CMAKE_CUDA_ARCHITECTURES ${architectures}
        CACHE STRING "GPUs to compile for; one of them makes a quick build")
  endif()
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc supports C++20.
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
endif()

# The trainer's GPU layers also need cuDNN 9; RONDO_CUDNN_MISSING says why they are not built.
set(RONDO_CUDNN_MISSING "")
if(NOT RONDO_WITH_CUDNN)
  set(RONDO_CUDNN_MISSING "not built (RONDO_WITH_CUDNN is off)")
elseif(NOT RONDO_HAVE_CUDA)
  set(RONDO_CUDNN_MISSING "this build has no CUDA (${RONDO_CUDA_MISSING})")
else()
  find_path(RONDO_CUDNN_INCLUDE cudnn_v9.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(RONDO_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(RONDO_CUDNN_INCLUDE RONDO_CUDNN_LIBRARY)
  if(NOT RONDO_CUDNN_INCLUDE OR NOT RONDO_CUDNN_LIBRARY OR NOT TARGET CUDA::cublas)
    set(RONDO_CUDNN_MISSING "not built (no cuDNN 9, or no cuBLAS, was found)")
  endif()
endif()
set(RONDO_CUDNN_MISSING "${RONDO_CUDNN_MISSING}" CACHE INTERNAL "Why the GPU layers are not built")
