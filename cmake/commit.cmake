# Run at each build: writes the header that names the commit, where that has changed.
#   cmake -DSOURCE=folder -DHEADER=file [-DCOMMIT=text] -P commit.cmake
# Without COMMIT, or where that is "unknown", it is the one that git knows, with "-dirty" where files were edited since; "unknown" outside of a clone.
cmake_minimum_required(VERSION 3.25)
if(NOT COMMIT OR COMMIT STREQUAL "unknown")
  set(COMMIT unknown)
  find_program(GIT git)
  if(GIT AND EXISTS "${SOURCE}/.git")
    execute_process(COMMAND ${GIT} --no-optional-locks describe --always --exclude=* --dirty --abbrev=12
                    WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
                    RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(COMMIT ${found})
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define MUSTER_GIT_COMMIT \"${COMMIT}\"\n")
