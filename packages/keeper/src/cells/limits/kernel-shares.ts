/** What the kernel counts for each user over all of the machine. A cell that took all of it would leave nothing for its owner's own
 *  programs. A watcher of files takes one instance for each program. */
const shares = { max_inotify_instances: 64, max_inotify_watches: 262_144 } as const

/** A line for a shell that is root of a user namespace: all that is made below may then have so much together.
 *  Does not stop: several commands of one bwrap cell, each of which has namespaces of its own. */
export const limitShares: string = Object.entries(shares)
  .map(([name, most]) => `[ ! -w /proc/sys/user/${name} ] || echo ${most} >/proc/sys/user/${name}`)
  .join('; ')
