#!/usr/bin/env bash
# What the tests of browsers, databases and Spark need from the system. Tests skip, with a reason, where it is absent.
set -euo pipefail
wanted=()
command -v chromium >/dev/null || wanted+=(chromium)
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || wanted+=(postgresql)
command -v java >/dev/null || wanted+=(openjdk-17-jre-headless)
if [ ${#wanted[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed, their tests will skip: ${wanted[*]} (Debian: apt-get install ${wanted[*]})"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${wanted[@]}" >/dev/null
