import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type Attack, judge, judgeByKernel } from './attack.ts'

/** Writing to these changes nothing. Nor does it to the null device, which an engine also hides files behind. */
const harmless = ['/dev/full', '/dev/ptmx', '/dev/pts/ptmx', '/dev/random', '/dev/tty', '/dev/urandom', '/dev/zero']
/** Each is the cell's own, of limited size or without any content, and goes with it. */
const scratch = ['/dev/shm', '/dev/mqueue', '/tmp', '/var/tmp']

export const writeOutside: Attack = {
  name: 'write outside',
  promise: 'Nothing can be written but the workspace, the home and scratch space of the cell’s own',
  guard: 'a root that is read-only, of which the host’s files are no part',
  async *run(on) {
    const under = await on.cell()
    const { workspace, home } = under
    const name = `attack-${randomUUID()}`
    // A process may always write its own files of /proc; they change only itself. access(2) is not believed: each is tried.
    const { lines } = await under.sh(`
      find / -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune -o ! -type l -writable -print 2>/dev/null |
      while read -r path; do
        if [ "$(stat -c %t:%T "$path" 2>/dev/null)" = 1:3 ]; then continue; fi
        if [ -d "$path" ]; then (: > "$path/${name}"); else (: >> "$path"); fi 2>/dev/null && echo "$path"
      done`)
    const allowed = [...harmless, ...scratch]
    // With a kernel of its own, what that one makes up is the cell's.
    const isOfOwnKernel = (path: string) => on.kernel === 'own' && /^\/(dev|proc|sys)(\/|$)/.test(path)
    const isOwn = (path: string) => [workspace, home].some((folder) => path === folder || path.startsWith(`${folder}/`))
    const elsewhere = lines.filter((path) => ![...allowed, '/dev/null'].includes(path) && !isOwn(path) && !isOfOwnKernel(path))
    const seen = [lines.includes(workspace), lines.includes(home), elsewhere.length, ...elsewhere].map(String)
    yield judgeByKernel(on, 'nothing else that can be found is writable', seen, ['true', 'true', '0'])
    yield judge(
      'nothing that was written is on the host',
      { tried: lines.length > 3, written: lines.filter((path) => !isOwn(path) && existsSync(`${path}/${name}`)) },
      { tried: true, written: [] },
    )

    const { lines: folders } = await under.sh(`
      tried=0; written=
      for folder in / /* /*/* /usr/*/* /etc/*/* /proc/self /run/windows; do
        [ -d "$folder" ] || continue
        case "$folder" in ${home}*|${workspace}*|/tmp*|/var/tmp*|/dev/shm*|/dev/mqueue*) continue;; esac
        tried=$((tried + 1))
        (: > "$folder/attack") 2>/dev/null && written="$written $folder"
      done
      [ $tried -gt 30 ] && echo "tried many"; echo "written:$written"`)
    const [tried, written = ''] = folders
    const others = written.split(' ').filter((folder) => !isOfOwnKernel(folder))
    yield judge('every folder refuses a new file', [tried, ...others], ['tried many', 'written:'])

    const places = ['/', '/usr', '/proc/sys', '/dev']
    const { lines: remounts } = await under.sh(
      `for m in ${places.join(' ')}; do mount -o remount,rw $m 2>/dev/null && echo DONE || echo refused; done`,
    )
    yield judge(
      'the read-only flag cannot be taken away',
      remounts,
      places.map(() => 'refused'),
    )
  },
}
