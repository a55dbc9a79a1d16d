//! Ranges 10 (usage), 11 (files) and 12 (this host).

super::rows! { SETUP;
    1001 BAD_USAGE "bad_usage" (Usage, None, Permanent)
        "the command line is wrong: {what}"
        ["an argument is missing, misspelt or of the wrong form"]
        "run the verb with --help; it ends with an example";
    1002 EXPERIMENTAL_VERB "experimental_verb" (Usage, None, Permanent)
        "{verb} is experimental"
        ["the verb may change or disappear between releases"]
        "add --experimental if that is acceptable";
    1003 FEATURE_MISSING "feature_missing" (Usage, None, Permanent)
        "this program was built without the feature {feature}"
        ["the feature is off in the default build"]
        "rebuild with --features {feature}, or use a build that has it";

    1101 CONFIG_UNREADABLE "config_unreadable" (Invalid, None, Permanent)
        "{file} cannot be read"
        ["the file does not exist or its path is wrong", "this user may not read it", "it is larger than its limit",
         "it is not well-formed text of its format"]
        "give the right path, or correct the place named in the cause";
    1102 UNKNOWN_KEY "unknown_key" (Invalid, None, Permanent)
        "{file}: unknown key {key}; the nearest known key is {nearest}"
        ["the key is misspelt", "it stands in another section", "it belongs to another release or protocol"]
        "rename or remove the key; `synod config explain KEY` lists what each one means";
    1103 BAD_VALUE "bad_value" (Invalid, None, Permanent)
        "{file}: {key} is {problem}"
        ["the value has the wrong type or unit", "it is outside its range", "a required key is missing"]
        "give a value in the range that `synod config explain KEY` prints";
    1104 KEY_FILE_UNSAFE "key_file_unsafe" (Invalid, None, Permanent)
        "{file} is not a safe key file: {problem}"
        ["others may read it (its mode is not 0600)", "it belongs to another user", "it is a symbolic link",
         "it is not a regular file"]
        "chown the file to the user that runs the node, chmod it to 0600 and name the file itself, not a link";
    1105 GENESIS_INVALID "genesis_invalid" (Invalid, None, Permanent)
        "{file} does not describe a cluster: {problem}"
        ["two members share a name, an address or a key", "a public key is malformed, or its possession is not proved",
         "there are no members, or more than 128"]
        "correct the member or key named in the message, or build the file again with `synod init`";
    1106 RELATION_BROKEN "relation_broken" (Invalid, None, Permanent)
        "{first} and {second} do not fit together: {problem}"
        ["one of the two keys was changed without the other", "a node asks for more than its genesis allows"]
        "change one of the two keys so that the stated relation holds";
    1107 KEY_NOT_IN_GENESIS "key_not_in_genesis" (Invalid, None, Permanent)
        "the key {key} of node {name} is not the one in the genesis"
        ["the node was given the key file of another node", "the genesis was built again with new keys"]
        "use the key file whose card was in `synod init --cards`, or the genesis that names this key";
    1108 FOREIGN_DATA_DIR "foreign_data_dir" (Invalid, None, Permanent)
        "{directory} holds the data of {theirs}, not of {mine}"
        ["the directory belongs to another cluster or another member", "two disks were exchanged"]
        "point node.data_dir at this member's own directory";
    1109 ALREADY_INITIALISED "already_initialised" (Invalid, None, Permanent)
        "{path} exists; nothing was overwritten"
        ["the command was run before", "the directory is in use by another cluster"]
        "choose another path, or move the existing one away if it is really not needed";
    1110 FORMAT_NEWER "format_newer" (Invalid, None, Permanent)
        "{file} has format {found}; this program reads up to {known}"
        ["the file was written by a newer release"]
        "run the newer release; data is never downgraded";
    1111 INSECURE_LISTENER "insecure_listener" (Invalid, None, Permanent)
        "{key} = {address} is reachable from other machines without {missing}"
        ["a listener was moved off loopback before credentials and TLS were set up"]
        "set the missing keys, or bind the listener to 127.0.0.1";
    1112 DATA_DIR_LOCKED "data_dir_locked" (Invalid, None, Temporary)
        "{directory} is in use by process {pid}"
        ["the node already runs", "a previous one has not ended yet"]
        "stop that process first; the lock disappears with it";

    1201 DISK_RESERVE "disk_reserve" (Failure, None, Temporary)
        "{path} has {free} bytes free, below the reserve of {reserve}"
        ["the disk is nearly full"]
        "free space, or lower storage.disk_reserve_bytes knowingly";
    1202 DESCRIPTOR_LIMIT "descriptor_limit" (Failure, None, Permanent)
        "the limit of {limit} open files is below the {needed} this node may need"
        ["the limit of the shell or of the service unit is low"]
        "raise it (ulimit -n, LimitNOFILE), or lower limits.clients_max";
    1203 SHARED_MEMORY "shared_memory" (Failure, None, Permanent)
        "a shared memory region is unsafe: {problem}"
        ["its seals, mode or owner are not those the protocol requires"]
        "start the processes under the users the deployment names, without mapping regions by hand";
    1204 SPINNERS_EXCEED_CORES "spinners_exceed_cores" (Failure, None, Permanent)
        "{spinners} spinning pollers on {cores} cores"
        ["runtime.poll = \"dedicated\" needs one core per poller"]
        "use runtime.poll = \"yield\" or \"park\", or a machine with more cores";
    1205 PROGRAM_MISSING "program_missing" (Failure, None, Permanent)
        "{program} was not found; the package {package} has it"
        ["it is not installed on this host", "it is in no directory of PATH"]
        "install the package that the message names on every host of the cluster, in the same version";
    1206 SERVER_PROCESS "server_process" (Failure, None, Temporary)
        "the server process {program} failed: {problem}; the node stops"
        ["somebody ended the process", "the system had no memory left for it", "its version knows another set of options"]
        "read its log in the node's data directory, then start the node again: it takes the state over from its peers";
}
