# The front door. Everything is built by Meson into $(BUILD); apt packages are installed if root.
#
#   make              build
#   make demo         two tenants on the real GPU if there is one, else on a simulated one
#   make test         everything that must hold, quickly          [SAN=address,undefined | SAN=thread]
#   make test-all     the above, with sanitizers, fuzzers and random kills (what CI runs)
#   make bench-gate   what supervision costs, native and supervised side by side
#   make bench-route  what the router must show, other routers' formulas beside it
#   make bench-time   GPU time shared, ours beside the driver's default
#   make lint         format, house rules, shell
#   make install      PREFIX=/usr/local

SAN    ?=
BUILD  ?= build$(if $(SAN),-$(subst $() ,,$(subst $(comma),-,$(SAN))))
PREFIX ?= /usr/local
comma  := ,

.PHONY: all deps demo test test-all bench-gate bench-route bench-time lint install clean

all: deps $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

deps:
	@tools/deps

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --prefix=$(PREFIX) $(if $(SAN),-Db_sanitize=$(SAN) -Db_lundef=false -Doptimization=1 -Dc_args=-g1 -Dwerror=false) >/dev/null

demo: all
	@tools/demo $(BUILD)

test: all
	@tools/deps containers
	@tests/run $(BUILD)

test-all:
	@tests/all

bench-gate: all
	@bench/gate $(BUILD)

bench-time: all
	@bench/time $(BUILD)

bench-route: all
	@bench/route/all $(BUILD)

lint: all
	@tools/lint $(BUILD)

install: all
	@meson install -C $(BUILD)

clean:
	rm -rf build build-*
