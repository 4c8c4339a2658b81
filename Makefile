# The front door. Each target brings along what it needs, from any state of the tree and the cache.
.PHONY: help demo test build bench setup clean
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

help:
	@echo 'make demo    set up, build, distil two skills and switch between them (half an hour or more)'
	@echo 'make test    set up with both models, build, run every test'
	@echo 'make build   set up, build build/release/retort'
	@echo 'make bench   every benchmark, on an otherwise idle machine'
	@echo 'make clean   remove the build; the cache and your adapters stay'

setup:
	@scripts/setup

build: setup
	@scripts/build release retort

demo: build
	@scripts/demo

test:
	@scripts/setup --with-qwen
	@scripts/build
	@ctest --test-dir build/release --output-on-failure --no-tests=error

bench:
	@scripts/setup --with-qwen
	@scripts/build release retort
	@build/release/retort bench all

clean:
	@rm -rf build
