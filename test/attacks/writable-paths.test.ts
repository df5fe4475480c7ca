import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

attack('writing outside the folders that were given', (driver) => {
  test('finds nothing writable but workspace, home, scratch space and harmless devices', async () => {
    await using under = await cellUnderAttack(driver)
    // A process may always write its own files of /proc; they change only itself. access(2) is not believed: each is tried.
    const { lines } = await under.sh(`
      find / -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune -o ! -type l -writable -print 2>/dev/null |
      while read -r path; do
        if [ -d "$path" ]; then (: > "$path/attack"); else (: >> "$path"); fi 2>/dev/null && echo "$path"
      done`)
    const devices = ['/dev/full', '/dev/null', '/dev/pts/ptmx', '/dev/random', '/dev/urandom', '/dev/zero']
    expect(lines.toSorted()).toEqual([...devices, '/dev/shm', '/home/agent', '/tmp', '/var/tmp', '/workspace'].toSorted())
  })

  test('is refused in every folder there is', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh(`
      tried=0; written=
      for folder in / /* /*/* /usr/*/* /etc/*/* /proc/self /run/windows; do
        [ -d "$folder" ] || continue
        case "$folder" in /home/agent*|/workspace*|/tmp*|/var/tmp*|/dev/shm*) continue;; esac
        tried=$((tried + 1))
        (: > "$folder/attack") 2>/dev/null && written="$written $folder"
      done
      [ $tried -gt 30 ] && echo "tried many"; echo "written:$written"`)
    expect(lines).toEqual(['tried many', 'written:'])
  })

  test('cannot take away the read-only flag', async () => {
    await using under = await cellUnderAttack(driver)
    expect(
      (await under.sh('for m in / /usr /proc/sys /dev; do mount -o remount,rw $m 2>/dev/null && echo DONE || echo refused; done'))
        .lines,
    ).toEqual(Array(4).fill('refused'))
  })
})
