import { type Attack, judge } from './attack.ts'

export const releaseAgent: Attack = {
  name: 'cgroup release_agent',
  promise: 'No control group of the host’s can be written, so no program can be made to run there when one is empty',
  guard: 'no control group file system inside, and none can be mounted',
  async *run(on) {
    for (const hold of on.holds) {
      const under = await on.cell({}, hold)
      const { lines } = await under.sh(`
        echo looked
        find / -xdev -name release_agent -o -name cgroup.procs -o -name notify_on_release 2>/dev/null | head -n 20
        # A folder that was handed to the cell's user on the host would be writable here.
        for folder in /sys/fs/cgroup $(find /sys/fs/cgroup -type d -writable 2>/dev/null | head -n 50); do
          (echo "#!/bin/sh" > $folder/release_agent) 2>/dev/null && echo "WRITTEN $folder/release_agent"
          (echo 1 > $folder/notify_on_release) 2>/dev/null && echo "WRITTEN $folder/notify_on_release"
          mkdir $folder/attack 2>/dev/null && echo "MADE $folder/attack"
          (echo $$ > $folder/cgroup.procs) 2>/dev/null && echo "MOVED $folder"
        done
        mkdir -p /tmp/cg
        for type in "cgroup -o memory" "cgroup -o rdma" cgroup2; do mount -t $type none /tmp/cg 2>/dev/null && echo "MOUNTED $type"; done
        echo refused`)
      yield judge(`none can be found, written or mounted, with ${hold}`, lines, ['looked', 'refused'])
      await under[Symbol.asyncDispose]()
    }
  },
}
