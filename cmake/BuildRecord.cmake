# Writes the C++ file that gives the program its build record: the git revision, and the packages that are compiled in.
# Run at every build, it touches the file only when the record changes, so that a commit costs one small file and a link.
#
#   cmake -DSOURCE=<folder> -DOUTPUT=<file.cpp> "-DTOOLS=<compiler>;..." "-DHEADERS=<file>;..." -P BuildRecord.cmake
#
# The record stands in a section of its own and of fixed length: two revisions that compile to the same code differ in
# nothing else. `readelf -p .diptych_build build/release/diptych` shows it.

set(length 4096)
# What goes into the program. Changes elsewhere (documents, tests) don't make a build dirty.
set(inputs CMakeLists.txt CMakePresets.json cmake framework profiler reports workloads cli)

# Inside of a git hook these name the hook's repository.
set(git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE --unset=GIT_INDEX_FILE
        git --no-optional-locks -C ${SOURCE})

set(record "")
macro(note key value)
  string(APPEND record "${key}=${value}\n")
endmacro()

function(run_git out_ok out_text)
  execute_process(COMMAND ${git} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_QUIET
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(code EQUAL 0)
    set(${out_ok} TRUE PARENT_SCOPE)
  else()
    set(${out_ok} FALSE PARENT_SCOPE)
  endif()
  set(${out_text} "${text}" PARENT_SCOPE)
endfunction()

find_program(git_program git)
run_git(is_checkout prefix rev-parse --show-prefix)
if(NOT git_program)
  note(git_reason "built where git is not installed")
elseif(NOT is_checkout)
  note(git_reason "not built from a git checkout (an unpacked archive?), or git refuses to read it")
elseif(NOT prefix STREQUAL "")
  note(git_reason "built from a folder inside of another git repository")
else()
  run_git(has_head revision rev-parse --verify HEAD)
  run_git(has_status changes status --porcelain -- ${inputs})
  if(NOT has_head)
    note(git_reason "built from a git repository without commits")
  elseif(NOT has_status)
    note(git_reason "git status failed where it was built")
  else()
    note(git_sha ${revision})
    if(changes STREQUAL "")
      note(git_dirty false)
    else()
      note(git_dirty true)
    endif()
  endif()
endif()

# Adds "key=name version" of the package that the file is from.
macro(note_package key path)
  file(REAL_PATH ${path} file)
  # Says "name:architecture: /path", or "name, other: /path".
  execute_process(COMMAND dpkg-query -S ${file} OUTPUT_VARIABLE owner RESULT_VARIABLE code ERROR_QUIET)
  if(code EQUAL 0 AND owner MATCHES "^([a-z0-9][a-z0-9+.-]*(:[a-z0-9-]+)?)[:,] ")
    execute_process(COMMAND dpkg-query -W -f "\${Package} \${Version}" ${CMAKE_MATCH_1}
                    OUTPUT_VARIABLE package RESULT_VARIABLE code ERROR_QUIET)
    if(code EQUAL 0)
      string(APPEND packages "${key}=${package}\n")
    endif()
  endif()
endmacro()

# Asking dpkg takes a while: only after packages changed, or what is asked for.
string(MD5 asked "${TOOLS};${HEADERS}")
set(cache ${OUTPUT}.${asked}.packages)
set(database /var/lib/dpkg/status)
if(EXISTS ${database} AND (${database} IS_NEWER_THAN ${cache} OR ${CMAKE_CURRENT_LIST_FILE} IS_NEWER_THAN ${cache}))
  set(packages "")
  foreach(tool ${TOOLS})
    note_package(tool ${tool})
  endforeach()
  foreach(header ${HEADERS})
    note_package(package ${header})
  endforeach()
  file(WRITE ${cache} "${packages}")
endif()
if(EXISTS ${cache})
  file(READ ${cache} packages)
  string(APPEND record "${packages}")
endif()

string(LENGTH "${record}" used)
if(used GREATER_EQUAL length)
  message(FATAL_ERROR "the build record has ${used} bytes, its section in the program ${length}")
endif()
set(text "// Made by cmake/BuildRecord.cmake.
namespace diptych::cli {
extern const char build_record[${length}];
[[gnu::used, gnu::section(\".diptych_build\")]] const char build_record[${length}] = R\"record(${record})record\";
}  // namespace diptych::cli
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
