"""The core: the cluster tests that find what no lower test finds. `make test-core` runs them; `core` is their marker.

Each transport, dialect and MPI is in it once, each class of fault once, and the client, virtual clusters, the
installation and its upgrade. A test's name alone means all its parameters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

CORE = {
    # By exec without an operator: each MPI, each kind of user, and how a launcher ends.
    "test_launch.py": (
        "test_an_example_runs_as_it_is",
        "test_an_arbitrary_user_with_a_read_only_root[openmpi5]",
        "test_root_where_only_our_own_containers_are_restricted[mpich]",
        "test_the_named_container_of_several_is_used",
        "test_an_applications_exit_code_comes_back[openmpi4-3]",
        "test_a_rank_that_is_killed_takes_the_others_with_it[intel]",
    ),
    "test_images.py": (
        "test_our_image_has_no_shell_and_needs_none",
        "test_the_bill_of_our_image_is_what_is_in_it",
        "test_the_variant_has_a_real_kubectl",
    ),
    # Each dialect and MPI by our operator: by exec, by ssh, and of T9k.
    "operator/test_ranks.py": ("test_ranks_run_in_the_workers",),
    "ssh/test_ranks.py": ("test_ranks_run_where_the_hostfile_says",),
    "t9k/test_examples.py": ("test_two_ranks_run_in_each_worker",),
    "t9k/test_documents.py": ("test_the_first_example_walks_through_its_phases",),
    # What a job does in its life.
    "operator/test_lifecycle.py": (
        "test_a_job_tells_its_story",
        "test_a_suspended_job_waits_and_begins_anew[v2beta1]",
        "test_a_worker_that_is_deleted_comes_back[v1]",
        "test_a_job_grows_and_shrinks_while_it_runs[v2beta1]",
        "test_an_operator_that_is_killed_makes_nothing_twice",
    ),
    "operator/test_elastic.py": ("test_what_is_discovered_follows_replicas[v1]",),
    "operator/test_replaced.py": ("test_a_launcher_that_is_deleted_comes_back_to_clean_workers[v2beta1-Job]",),
    "operator/test_interrupted.py": ("test_a_launcher_that_is_drained_is_made_anew[v1-1]",),
    "operator/test_modes.py": ("test_a_job_is_debugged_paused_and_resumed[v1-by_annotation]",),
    "operator/test_scheduling.py": ("test_a_job_is_admitted_and_put_back_as_kueue_does_it[v2beta1]",),
    "operator/test_tenants.py": ("test_a_launcher_has_no_rights_to_a_pod_of_another[v2beta1]",),
    "operator/test_objects.py": ("test_objects_are_taken[4pi-v1]", "test_our_names_in_the_users_template_are_taken"),
    # Faults: of the node, of the API server, of what we run, of workers and launchers.
    "test_faults_access.py": (
        "test_the_role_is_missing_when_workers_are_waited_for",
        "test_the_key_of_all_service_accounts_is_replaced",
    ),
    "test_faults_ending.py": (
        "test_the_launcher_is_deleted_with_16_workers_busy[ends on TERM-openmpi5]",
        "test_the_launcher_is_restarted_in_place",
    ),
    "test_faults_launch.py": (
        "test_the_api_server_hangs_dies_and_comes_back[openmpi5]",
        "test_the_hub_is_killed_when_the_first_daemon_runs[openmpi4]",
    ),
    "test_faults_running.py": (
        "test_the_api_server_is_killed_and_restarted",
        "test_the_kubelet_is_killed_and_restarted",
    ),
    "test_faults_workers.py": (
        "test_a_worker_is_deleted_during_the_launch[openmpi5-prted]",
        "test_a_worker_is_deleted_in_mid_job[openmpi4]",
        "test_a_worker_runs_out_of_memory[intel]",
        "test_an_image_does_not_exist",
    ),
    "operator/test_lost_ranks.py": ("test_a_job_that_lost_ranks_has_failed[v2beta1-daemon]",),
    "operator/test_leader.py": ("test_the_other_takes_over[killed]",),
    "ssh/test_faults.py": (
        "test_an_sshd_that_is_killed_comes_back",
        "test_a_worker_that_may_not_be_restarted_is_replaced",
        "test_a_broken_key_is_told_and_a_deleted_secret_heals_it",
    ),
    "ssh/test_bad_input.py": ("test_a_worker_that_can_have_no_sshd_says_why",),
    # The client, and what workers tell it.
    "operator/test_client.py": ("test_each_command_on_a_healthy_job",),
    "ssh/test_processes.py": ("test_a_hung_rank_is_seen[ssh]",),
    "test_local_containers.py": ("test_an_example_runs_in_its_images",),
    # Virtual clusters.
    "virtual/test_virtual_cluster.py": (
        "test_ranks_run_and_lost_pods_are_replaced",
        "test_a_dvm_that_loses_a_node_is_started_again[exec]",
    ),
    "virtual/test_dvm.py": ("test_many_jobs_run_in_one_dvm[ssh]",),
    "virtual/test_application.py": (
        "test_ranks_find_each_other_from_their_image[exec]",
        "test_exit_codes_and_errors_are_those_of_the_program[exec]",
    ),
    "virtual/test_canopie.py": ("test_prterun_reaches_every_node[kubectl]",),
    "virtual/test_kubectl_mpi.py": ("test_a_virtual_cluster_from_outside",),
    # Installation, upgrade, and moving from kubeflow's operators.
    "operator/test_install.py": (
        "test_the_notes_have_a_first_job_that_runs",
        "test_its_pod_keeps_to_restricted",
        "test_it_asks_for_nothing_that_it_has_no_right_to",
        "test_an_upgrade_leaves_a_running_job_alone",
    ),
    "operator/test_definition.py": (
        "test_a_definition_of_kubeflows_is_taken_over[v1]",
        "test_install_yaml_is_all_that_is_needed",
    ),
    "operator/test_chart.py": ("test_install_yaml_is_what_the_chart_is_rendered_to",),
    "operators/test_switching.py": ("test_an_example_of_theirs_runs[training-operator]",),
    "definition/test_definition.py": ("test_a_patch_through_the_other_version_harms_nothing",),
}


def is_core(nodeid: str) -> bool:
    """Whether a test is of the core."""
    return bool(_entries(nodeid) & _ALL)


def without_test(nodeids: Iterable[str]) -> list[str]:
    """The names in the core that none of the tests has."""
    found = [_entries(nodeid) for nodeid in nodeids]
    return sorted("::".join(entry) for entry in _ALL.difference(*found))


def _entries(nodeid: str) -> set[tuple[str, str]]:
    """The entries that would name a test: with its parameters, and without."""
    path, _, name = nodeid.removeprefix("tests/cluster/").partition("::")
    name = re.sub(r"^\w+::", "", name)  # of a class, the method
    return {(path, name), (path, name.partition("[")[0])}


_ALL = {(path, name) for path, names in CORE.items() for name in names}
