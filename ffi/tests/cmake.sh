#!/bin/sh
# A build by find_package, as a program's own: cmake.sh PREFIX SOURCE.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$2/ffi/examples/book.cpp" "$2/ffi/examples/counter.c" "$work/"
cat >"$work/version.c" <<'C'
#include <ringleader.h>
#include <stdio.h>
int main(void) {
    return puts(ringleader_status_text(RINGLEADER_OK)) < 0;
}
C
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(embeds C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_C_STANDARD 11)
find_package(ringleader 0.1 REQUIRED)
find_package(ringleader REQUIRED)
find_package(Threads REQUIRED)
add_executable(counter counter.c)
target_link_libraries(counter ringleader::ringleader)
add_executable(book book.cpp)
target_link_libraries(book ringleader::static Threads::Threads)
add_executable(version version.c)
target_link_libraries(version ringleader::acceptor)
CMAKE
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$1" -DCMAKE_BUILD_TYPE=Release
cmake --build "$work/build"
"$work/build/version" | grep -q done
[ "$("$work/build/book" --alone <"$2/ffi/examples/orders.txt" | cut -c 1-8)" = '= trades' ]
"$work/build/counter" 2>&1 | grep -q usage
# Before 1.0 another minor version is another library.
for version in 9.0 0.0 0.2; do
    printf 'cmake_minimum_required(VERSION 3.13)\nproject(embeds C)\nfind_package(ringleader %s REQUIRED)\n' $version >"$work/CMakeLists.txt"
    if cmake -S "$work" -B "$work/other-$version" -DCMAKE_PREFIX_PATH="$1" >"$work/said" 2>&1; then
        echo "find_package takes it for version $version"
        exit 1
    fi
    grep -q ringleader "$work/said"
done
echo 'find_package finds it, and no version that it is not'
