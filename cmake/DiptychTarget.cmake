# One place for the flags that every target shares.
#
# -ffp-contract=off, -fno-math-errno and -fno-trapping-math are part of the numerics contract (docs/numerics.md):
# contraction would make results depend on the instruction set; the other two only drop side effects that nothing
# reads, and let the compiler vectorise.
# -ffile-prefix-map keeps machine paths out of binaries and messages, also where ccache makes them relative to the build folder.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1 -fno-omit-frame-pointer")

set(DIPTYCH_NUMERICS_FLAGS -ffp-contract=off -fno-math-errno -fno-trapping-math)

# What a run file names: all flags that the machine code depends on, no folders.
string(TOUPPER "${CMAKE_BUILD_TYPE}" DIPTYCH_CONFIGURATION)
string(JOIN " " DIPTYCH_BUILD_FLAGS ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${DIPTYCH_CONFIGURATION}} -std=c++${CMAKE_CXX_STANDARD}
       ${DIPTYCH_NUMERICS_FLAGS})
string(REPLACE "${CMAKE_SOURCE_DIR}/" "" DIPTYCH_BUILD_FLAGS "${DIPTYCH_BUILD_FLAGS}")

file(RELATIVE_PATH DIPTYCH_SOURCE_FROM_BUILD ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
string(REGEX REPLACE "/$" "" DIPTYCH_SOURCE_FROM_BUILD "${DIPTYCH_SOURCE_FROM_BUILD}")

function(diptych_flags target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/diptych>)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-qual -Woverloaded-virtual
    -Wno-missing-field-initializers
    -Wno-psabi  # a note on vectors as arguments, of functions that are always inlined
    ${DIPTYCH_NUMERICS_FLAGS}
    -ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${DIPTYCH_SOURCE_FROM_BUILD}/=)
  if(DIPTYCH_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  # GCC collects garbage from 128 MB on, a tenth of a unit's time; a batch needs up to 1 GB without.
  if(DIPTYCH_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1000000)
  endif()
  if(DIPTYCH_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${DIPTYCH_SANITIZE} -fno-sanitize-recover=all)
    if(DIPTYCH_SANITIZE_EXCEPT)
      target_compile_options(${target} PRIVATE -fno-sanitize=${DIPTYCH_SANITIZE_EXCEPT})
    endif()
    target_link_options(${target} PUBLIC -fsanitize=${DIPTYCH_SANITIZE})
  endif()
endfunction()

# Most of a unit's compile time goes to headers that its neighbours read too, so neighbours are compiled as one (a unity build):
# a target's files, folder by folder, in batches of up to `BYTES` of source, which bounds what touching one file costs; small
# folders share one, and a new file moves no other folder's boundaries. `ALONE`: files whose own code is the work, as kernels. Off: every unit for itself, as the preset `units` has it
# for clangd, clang-tidy and the check that no unit lives on what another includes.
option(DIPTYCH_UNITY "Compile the units of a target in batches" ON)

# diptych_batches(target [BYTES n] [ALONE files...])
function(diptych_batches target)
  cmake_parse_arguments(ARG "" "BYTES" "ALONE" ${ARGN})
  if(NOT DIPTYCH_UNITY)
    return()
  endif()
  if(NOT ARG_BYTES)
    set(ARG_BYTES 60000)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "^\\$<")
  list(SORT sources)
  set(folders "")
  foreach(source ${sources})
    file(REAL_PATH ${source} path)
    string(FIND ${path} ${CMAKE_BINARY_DIR}/ generated)
    if(generated EQUAL 0 OR source IN_LIST ARG_ALONE)
      continue()
    endif()
    get_filename_component(folder ${path} DIRECTORY)
    file(SIZE ${path} size)
    if(NOT folder IN_LIST folders)
      list(APPEND folders ${folder})
      set(total_${folder} 0)
    endif()
    math(EXPR total_${folder} "${total_${folder}} + ${size}")
    list(APPEND batched_${folder} ${source})
    list(APPEND ends_${folder} ${total_${folder}})
  endforeach()
  set(filled 0)
  foreach(folder ${folders})
    set(total ${total_${folder}})
    math(EXPR both "${filled} + ${total}")
    if(filled AND NOT both GREATER ARG_BYTES)  # into the batch of the folder before
      set(filled ${both})
      set_source_files_properties(${batched_${folder}} PROPERTIES UNITY_GROUP "${name}")
      continue()
    endif()
    math(EXPR parts "(${total} + ${ARG_BYTES} - 1) / ${ARG_BYTES}")
    math(EXPR filled "${total} / ${parts}")
    file(RELATIVE_PATH place ${CMAKE_SOURCE_DIR} ${folder})
    string(REPLACE "/" "_" place "${place}")
    foreach(source end IN ZIP_LISTS batched_${folder} ends_${folder})
      math(EXPR part "(${end} - 1) * ${parts} / ${total}")
      set(name "${place}_${part}")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${name}")
    endforeach()
  endforeach()
endfunction()

# diptych_library(name SOURCES files... [ALONE files...] [BYTES n] [OPTIMISE level] [ASIDE regexes...]): a static library of this
# folder's parts. What is no part of what is measured is optimised less, which takes a fifth to a third off its compile time:
# the whole library with OPTIMISE, or the files whose places match ASIDE.
function(diptych_library name)
  cmake_parse_arguments(ARG "" "BYTES;OPTIMISE" "SOURCES;ALONE;ASIDE" ${ARGN})
  if(ARG_ASIDE)
    string(JOIN "|" places ${ARG_ASIDE})
    set(aside ${ARG_SOURCES})
    list(FILTER aside INCLUDE REGEX "^(${places})")
    list(REMOVE_ITEM ARG_SOURCES ${aside})
    add_library(${name}_aside OBJECT ${aside})
    diptych_flags(${name}_aside)
    target_compile_options(${name}_aside PRIVATE $<$<CONFIG:Release>:-O1>)
    foreach(property INCLUDE_DIRECTORIES COMPILE_DEFINITIONS)
      set_property(TARGET ${name}_aside APPEND PROPERTY ${property} $<TARGET_PROPERTY:${name},${property}>)
    endforeach()
    diptych_batches(${name}_aside BYTES ${ARG_BYTES} ALONE ${ARG_ALONE})
    list(APPEND ARG_SOURCES $<TARGET_OBJECTS:${name}_aside>)
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  diptych_flags(${name})
  if(ARG_OPTIMISE)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O${ARG_OPTIMISE}>)
  endif()
  diptych_batches(${name} BYTES ${ARG_BYTES} ALONE ${ARG_ALONE})
endfunction()

# diptych_precompile(library [OPTIMISE level]): headers of others that most batches read are compiled once for all libraries of one
# level of optimisation (of the library's own, and of what it has aside), which takes a twentieth to a seventh off a batch's time. None of ours is
# among them: touching it would compile everything again. To be called after files have got flags of their own: with those they
# read the headers themselves.
function(diptych_precompile library)
  cmake_parse_arguments(ARG "" "OPTIMISE" "" ${ARGN})
  if(NOT DIPTYCH_UNITY)
    return()
  endif()
  if(NOT ARG_OPTIMISE)
    set(ARG_OPTIMISE 3)
  endif()
  set(targets ${library} ${library}_aside)
  set(levels ${ARG_OPTIMISE} 1)
  foreach(target level IN ZIP_LISTS targets levels)
    if(NOT TARGET ${target})
      continue()
    endif()
    set(headers headers_O${level})
    if(NOT TARGET ${headers})
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${headers}.cpp CONTENT "")
      add_library(${headers} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${headers}.cpp)
      diptych_flags(${headers})
      target_compile_options(${headers} PRIVATE $<$<CONFIG:Release>:-O${level}>)
      target_link_libraries(${headers} PRIVATE fmt::fmt nlohmann_json::nlohmann_json)
      target_precompile_headers(${headers} PRIVATE
        <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional> <set> <span> <string> <string_view>
        <utility> <vector> <fmt/format.h>)
      if(NOT level STREQUAL 3)  # the engine reads no JSON, and headers that are there for nothing take time, too
        target_precompile_headers(${headers} PRIVATE <filesystem> <fmt/ranges.h> <nlohmann/json.hpp>)
      endif()
    endif()
    target_precompile_headers(${target} REUSE_FROM ${headers})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources EXCLUDE REGEX "^\\$<")
    foreach(source ${sources})
      get_source_file_property(options ${source} COMPILE_OPTIONS)
      if(options)
        set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endforeach()
endfunction()

# diptych_test_program(name SOURCES a.cpp ... LIBRARIES lib ... [BYTES n] [ALONE a.cpp ...]): one GoogleTest program of many sources,
# which costs one link and shares headers.
function(diptych_test_program name)
  cmake_parse_arguments(ARG "" "BYTES" "SOURCES;LIBRARIES;ALONE" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  diptych_flags(${name})
  diptych_batches(${name} BYTES ${ARG_BYTES} ALONE ${ARG_ALONE})
  # A test's own code is compiled for longer than it runs.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Og>)
  if(DIPTYCH_UNITY)
    if(NOT TARGET test_headers)  # those of others, compiled once for all programs
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/test_headers.cpp CONTENT "int main() {}\n")
      add_executable(test_headers EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/test_headers.cpp)
      diptych_flags(test_headers)
      target_compile_options(test_headers PRIVATE $<$<CONFIG:Release>:-Og>)
      target_precompile_headers(test_headers PRIVATE <gmock/gmock.h> <gtest/gtest.h> <fmt/format.h> <nlohmann/json.hpp>)
      target_link_libraries(test_headers PRIVATE GTest::gtest GTest::gmock fmt::fmt nlohmann_json::nlohmann_json)
    endif()
    target_precompile_headers(${name} REUSE_FROM test_headers)
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} diptych_test_places GTest::gtest GTest::gmock GTest::gtest_main)
endfunction()

# diptych_test(name LABELS unit ... PROGRAM program SOURCES a.cpp): the ctest entry of the tests in these sources of a program,
# in a process of their own; but for suites named ...Figures (below). Without PROGRAM it has a program of its own, linked to LIBRARIES.
function(diptych_test name)
  cmake_parse_arguments(ARG "" "BYTES;TIMEOUT;PROGRAM" "LABELS;SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(ARG_PROGRAM)
    set(suites "")
    foreach(source ${ARG_SOURCES})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      file(STRINGS ${source} tests REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
      foreach(test ${tests})
        string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+),.*" "\\1" suite "${test}")
        if(suite MATCHES "Figures$")
          set_property(TARGET ${ARG_PROGRAM} APPEND PROPERTY DIPTYCH_FIGURES "${suite}.*")
          continue()
        endif()
        # By name is how an entry finds its tests.
        get_target_property(owner ${ARG_PROGRAM} DIPTYCH_SUITE_${suite})
        if(owner AND NOT owner STREQUAL name)
          message(FATAL_ERROR "the suite ${suite} of ${source} stands in the entry ${owner} too; name one of them otherwise")
        endif()
        set_target_properties(${ARG_PROGRAM} PROPERTIES DIPTYCH_SUITE_${suite} ${name})
        list(APPEND suites "${suite}.*" "*/${suite}.*")
        if(test MATCHES "^TYPED")
          list(APPEND suites "${suite}/*")
        endif()
      endforeach()
    endforeach()
    list(REMOVE_DUPLICATES suites)
    string(JOIN ":" filter ${suites})
    add_test(NAME ${name} COMMAND ${ARG_PROGRAM} --gtest_filter=${filter})
  else()
    set(ARG_PROGRAM ${name})
    diptych_test_program(${name} SOURCES ${ARG_SOURCES} LIBRARIES ${ARG_LIBRARIES} BYTES ${ARG_BYTES})
    add_test(NAME ${name} COMMAND ${name})
  endif()
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(unit IN_LIST ARG_LABELS)
    add_dependencies(unit_tests_of_${folder} ${ARG_PROGRAM})
  endif()
  if(threads IN_LIST ARG_LABELS)
    add_dependencies(thread_tests_of_${folder} ${ARG_PROGRAM})
  endif()
  if(speed IN_LIST ARG_LABELS)
    target_compile_options(${ARG_PROGRAM} PRIVATE $<$<CONFIG:Release>:-O3>)
    set_target_properties(${ARG_PROGRAM} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # those are for -Og
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS};tests/${folder}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

# diptych_figures(name PROGRAM program): the ctest entry of the suites of a program that hold figures of this machine against bounds:
# alone on the machine, and by `scripts/test --measure` only.
function(diptych_figures name)
  cmake_parse_arguments(ARG "" "PROGRAM" "" ${ARGN})
  get_target_property(suites ${ARG_PROGRAM} DIPTYCH_FIGURES)
  list(REMOVE_DUPLICATES suites)
  string(JOIN ":" filter ${suites})
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM} --gtest_filter=${filter})
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set_tests_properties(${name} PROPERTIES LABELS "speed;tests/${folder}" TIMEOUT 900 RUN_SERIAL TRUE)
endfunction()

# diptych_uses_regex(files...): GCC 12 with sanitizers sees uninitialised members in std::regex that aren't (bug 105562).
function(diptych_uses_regex)
  if(DIPTYCH_SANITIZE)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS
      "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  endif()
endfunction()
