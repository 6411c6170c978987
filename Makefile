# `make` alone lists what there is.

.PHONY: help servers
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

servers: ## find nats-server and Postgres, install what is missing
	@scripts/servers
