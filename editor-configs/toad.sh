#!/bin/sh
exec toad acp "bridle acp" "$@"
