# SPDX-License-Identifier: Apache-2.0
# The front door. Everything is built by Meson into $(BUILD). Nothing here installs a package but
# `make deps`, and nothing runs as root but that, `make install` below /usr, and some of the tests.
#
#   make deps         install what make, make demo and make test need (Debian 12, as root)
#   make              build
#   make demo         two tenants on the real GPU if there is one, else on a simulated one
#   make test         everything that must hold, quickly   [SAN=address,undefined | SAN=thread]
#   make test-all     the long tests: lint, sanitizers, fuzzers, kills, a cluster; installs if root
#   make bench-gate   what supervision costs, native and supervised side by side   [BASE=another/build JSON=1 OUT=...]
#   make bench-route  what the router must show, other routers' formulas beside it
#   make bench-time   GPU time shared, ours beside the driver's default
#   make docs         the documents as HTML, with pictures from the simulator, in build/site
#   make lint         format, house rules, figures, shell, spelling
#   make install      PREFIX=/usr/local     [DESTDIR=...]; make uninstall takes it away again
#   make deb          Debian packages, in packages/; make tarball for other distributions
#   make images       the container image, with podman, docker or buildah   [TAG=NAME:VERSION]

SAN    ?=
BUILD  ?= build$(if $(SAN),-$(subst $() ,,$(subst $(comma),-,$(SAN))))
PREFIX ?=
OUT    ?= packages
comma  := ,

.PHONY: all deps demo test test-all bench-gate bench-route bench-time lint docs install uninstall deb tarball images clean

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

deps:
	@tools/deps base test containers route

# What meson says of a missing library is of no use to who has not read it; what it says else is.
$(BUILD)/build.ninja:
	@said=$$(meson setup $(BUILD) --prefix=$(or $(PREFIX),/usr/local) $(if $(SAN),-Db_sanitize=$(SAN) -Db_lundef=false -Doptimization=1 -Dc_args=-g1 -Dwerror=false) 2>&1) || \
		{ tools/deps --check base && printf '%s\n' "$$said" >&2; exit 1; }

demo: all
	@tools/demo $(BUILD)

test: all
	@tools/deps --check test
	@tests/run $(BUILD)

test-all:
	@tests/all

bench-gate: all
	@$(if $(filter command line environment,$(origin OUT)),OUT=$(OUT)) bench/gate $(if $(JSON),--json) $(BUILD)

bench-time: all
	@bench/time $(BUILD)

bench-route: all
	@bench/route/all $(BUILD)

lint: all
	@tools/lint $(BUILD)

docs: all
	@tools/pictures $(BUILD) $(BUILD)/site/pictures
	@tools/site $(BUILD)/site

# A prefix that is named holds, also where the build was configured with another one. What knows it is built again.
install: all
	@[ -z "$(PREFIX)" ] || [ "$(PREFIX)" = "$$(tools/prefix $(BUILD))" ] || meson configure $(BUILD) --prefix=$(PREFIX)
	@meson install -C $(BUILD) --quiet
	@echo "installed below $(DESTDIR)$$(tools/prefix $(BUILD))"

# What the last `make install` from this build put there.
uninstall:
	@tools/uninstall $(BUILD)

deb:
	@tools/deps --check package
	@tools/package deb $(OUT)

images: all
	@deploy/images/build $(BUILD) $(TAG)

tarball:
	@tools/package tar $(OUT)

clean:
	rm -rf build build-* packages
