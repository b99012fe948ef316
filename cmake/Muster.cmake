# Compiler settings, packages and the three target functions that every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor -Werror -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
# cpprestsdk's U() macro would break Boost's headers.
add_compile_definitions(_TURN_OFF_PLATFORM_STRING BOOST_ALL_NO_LIB)
# A unit of the controller took 8.0 CPU seconds with it and 10.8 with -O3; the API server sets the pace anyway.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(MUSTER_SANITIZE)
  add_compile_options(-O0 -g1)  # well under half of the compile time of -O1
elseif(CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-O1 -g1)
endif()
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
  if(MUSTER_SANITIZE MATCHES "undefined")
    # Checks of each dereference, which cost most of the compile time of UBSan. AddressSanitizer finds what follows
    # from a bad one, but not misalignment or a wrong dynamic type.
    add_compile_options(-fno-sanitize=null,alignment,object-size,vptr)
  endif()
  if(MUSTER_SANITIZE MATCHES "thread")
    # ThreadSanitizer does not know fences. Asio's are not needed here: its queues are behind mutexes.
    add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 sees overlapping copies and unset members in libstdc++'s own headers (GCC bugs 105651, 105562).
  add_compile_options(-Wno-restrict -Wno-maybe-uninitialized)
endif()
if(MUSTER_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

set(Boost_NO_BOOST_CMAKE ON)  # Debian's own Boost config refuses parts that cpprestsdk asks for
find_package(absl REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS system thread chrono)
find_package(cpprestsdk REQUIRED)
find_package(simdjson REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(RapidJSON REQUIRED)
add_library(muster_rapidjson INTERFACE)
target_include_directories(muster_rapidjson SYSTEM INTERFACE ${RAPIDJSON_INCLUDE_DIRS})
target_compile_definitions(muster_rapidjson INTERFACE RAPIDJSON_HAS_STDSTRING=1)
# Its empty stack adds to a null pointer, which UBSan does not forgive.
target_compile_options(muster_rapidjson INTERFACE -fno-sanitize=pointer-overflow)
# It was written before C++20 turned comparisons round.
target_compile_options(muster_rapidjson INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-ambiguous-reversed-operator>)

# muster_library(NAME [SOURCES_DIR dir] [DEPS area...] [PUBLIC lib...] [PRIVATE lib...])
#
# One static library a folder. Its public headers live in include/muster/NAME and become visible
# only to those that link it: each library exports an include root that holds its own folder alone,
# so including a header of a folder that is not below yours does not compile.
function(muster_library name)
  cmake_parse_arguments(ARG "" "SOURCES_DIR" "DEPS;PUBLIC;PRIVATE" ${ARGN})
  if(NOT ARG_SOURCES_DIR)
    set(ARG_SOURCES_DIR ${CMAKE_SOURCE_DIR}/src/${name})
  endif()
  # Relative, so that no name above the folder can match the filter.
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${ARG_SOURCES_DIR} ${ARG_SOURCES_DIR}/*.cpp ${ARG_SOURCES_DIR}/*/*.cpp)
  list(FILTER sources EXCLUDE REGEX "^main/")  # the entry points of binaries
  list(TRANSFORM sources PREPEND ${ARG_SOURCES_DIR}/)
  set(root ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${root}/muster)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/include/muster/${name} ${root}/muster/${name} SYMBOLIC)
  if(sources)
    add_library(muster_${name} STATIC ${sources})
    set(scope PUBLIC)
    target_include_directories(muster_${name} PRIVATE ${ARG_SOURCES_DIR})
    target_link_libraries(muster_${name} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(muster_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(muster_${name} ${scope} ${root})
  list(TRANSFORM ARG_DEPS PREPEND muster_)
  target_link_libraries(muster_${name} ${scope} ${ARG_DEPS} ${ARG_PUBLIC})
endfunction()

# muster_binary(NAME SOURCES file... DEPS area... [LIBS lib...])
function(muster_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_DEPS PREPEND muster_)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS})
endfunction()

# muster_test(NAME DEPS area... [LIBS lib...] [LABELS label...])
#
# One Catch2 binary from every *_test.cpp (and helper .cpp) in the calling folder. Label `cluster`
# means that it starts a real control plane: not built under sanitizers, run one at a time.
function(muster_test name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;LABELS" ${ARGN})
  if(MUSTER_SANITIZE AND "cluster" IN_LIST ARG_LABELS)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_executable(${name} ${sources})
  list(TRANSFORM ARG_DEPS PREPEND muster_)
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE MUSTER_SOURCE_DIR="${CMAKE_SOURCE_DIR}" MUSTER_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  target_link_libraries(${name} PRIVATE muster_catch_main ${ARG_DEPS} ${ARG_LIBS})
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "catch;${ARG_LABELS}")
  if("cluster" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
