# A control plane of etcd and API server alone for each measurement, with Muster's API objects, rights and policies in
# it: source it, do not run it. Builds what is needed. Sets bin (the programs) and dir (scratch, gone at the end).
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$root/scripts/setup" build cluster
binaries=$("$root/scripts/controlplane")
say "building"
cmake -S "$root" --preset release >/dev/null
cmake --build "$root/build/release" --target muster muster-cluster bench-jobs 2>&1 | progress
bin=$root/build/release/bin

dir=$(mktemp -d "${TMPDIR:-/tmp}/muster-bench.XXXXXX")
plane=
cluster=
muster=
end_of() { [ -z "$1" ] || { kill "$1" 2>/dev/null && wait "$1" 2>/dev/null || true; }; }
stop() {
  local status=$?
  trap - EXIT
  end_of "$muster"
  end_of "$cluster"
  [ "$status" = 0 ] || tail -n 5 "$dir"/*.log "$plane"/*.log >&2 2>/dev/null || true
  rm -rf "$dir"
  exit "$status"
}
trap stop EXIT
trap 'exit 130' INT TERM
kubectl() { "$binaries/controlplane" kubectl "$@"; }

cat >"$dir/muster.yaml" <<Y
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: "127.0.0.1:0"}
metrics: {bindAddress: "127.0.0.1:0"}
clientConnection: {qps: -1}
muster: {allowedStarters: ["system:serviceaccount:muster-system:bare"]}
Y

# kubeconfig_of SERVICEACCOUNT: with a token of its own
kubeconfig_of() {
  local file=$plane/$1.kubeconfig token
  token=$(kubectl -n muster-system create token "$1" --duration 24h)
  cp "$KUBECONFIG" "$file"
  kubectl --kubeconfig "$file" config set-credentials "$1" --token "$token" >/dev/null
  kubectl --kubeconfig "$file" config set-context "$1" --user "$1" \
    --cluster "$(kubectl config view -o 'jsonpath={.contexts[0].context.cluster}')" >/dev/null
  kubectl --kubeconfig "$file" config use-context "$1" >/dev/null
  echo "$file"
}

# Whether the policies are in force, which is some time after they were made.
suspends() {
  [ "$(kubectl create --dry-run=server -o 'jsonpath={.spec.suspend}' -f - <<Y 2>/dev/null
apiVersion: batch/v1
kind: Job
metadata: {name: probe, namespace: default, labels: {kueue.x-k8s.io/queue-name: probe}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]}}}
Y
)" = true ]
}

# start_plane NAME: a fresh one, with Muster's API objects, rights and policies. Sets plane, cluster, KUBECONFIG.
start_plane() {
  local i
  plane=$dir/$1
  mkdir "$plane"
  MUSTER_CONTROLPLANE=$binaries "$bin/muster-cluster" --dir "$plane/cluster" --api-only >"$plane/cluster.log" 2>&1 &
  cluster=$!
  for ((i = 0; ; i++)); do
    [ ! -e "$plane/cluster/ready" ] || break
    kill -0 "$cluster" 2>/dev/null && ((i < 600)) || die "the control plane does not start"
    sleep 0.2
  done
  export KUBECONFIG=$plane/cluster/admin.kubeconfig
  kubectl apply --server-side -f "$root/config/manager/namespace.yaml" >/dev/null
  kubectl apply --server-side -k "$root/config/crd" >/dev/null
  kubectl wait --for condition=Established crd --all --timeout=60s >/dev/null
  kubectl apply --server-side -k "$root/config/rbac" >/dev/null
  "$bin/muster" policies --config "$dir/muster.yaml" | kubectl apply --server-side -f - >/dev/null
  kubectl -n muster-system create serviceaccount bare >/dev/null
  kubectl create clusterrolebinding bare --clusterrole=cluster-admin --serviceaccount=muster-system:bare >/dev/null
  for ((i = 0; ; i++)); do
    ! suspends || break
    ((i < 100)) || die "the admission policies do not come into force"
    sleep 0.2
  done
}

stop_plane() {
  end_of "$cluster"
  cluster=
  rm -rf "$plane"
}

# start_muster: as it is installed, but without a limit on requests, so that the API server sets the pace.
start_muster() {
  local config
  config=$(kubeconfig_of muster)
  "$bin/muster" run --config "$dir/muster.yaml" --kubeconfig "$config" >"$plane/muster.log" 2>&1 &
  muster=$!
}

stop_muster() {
  end_of "$muster"
  muster=
}

# resident_kb FIELD: VmRSS (now) or VmHWM (at most so far) of Muster.
resident_kb() { awk -v field="$1:" '$1 == field { print $2 }' "/proc/$muster/status"; }
