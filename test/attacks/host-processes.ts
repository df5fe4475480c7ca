import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { type Attack, judge, notApplicable } from './attack.ts'

export const hostProcesses: Attack = {
  name: 'see or signal host processes',
  promise: 'Processes of the host, the same user’s too, can be neither seen, signalled, traced nor talked to by shared memory',
  guard: 'a pid namespace, an ipc namespace and a /proc of the cell’s own, or a kernel of its own',
  async *run(on) {
    const under = await on.cell()
    const victim = spawn('sleep', ['1000'], { ...under.spec.runAs, cwd: '/', stdio: 'ignore' })
    try {
      // By the exact names of what the host runs, so that whatever a rung itself has inside is no matter.
      const { lines } = await under.sh(`
        echo "$(printf '%s\\n' /proc/[0-9]* | wc -l)"
        for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline 2>/dev/null; echo; done | grep -c '^slee[p] 1000 $'`)
      const [count = '', sleeps] = lines
      const few = Number(count) > 0 && Number(count) < readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length / 2
      yield judge('none of them is in /proc', { few, sleeps }, { few: true, sleeps: '0' })

      if (on.rung === 'bwrap') {
        const peek = 'print open(my $f, "<", "/proc/1/mem") && read($f, my $b, 1) ? "READ" : "refused"'
        yield judge('the first process of the cell cannot be traced', (await under.perl(peek)).lines, ['refused'])
      } else {
        yield notApplicable(
          'the first process of the cell cannot be traced',
          'it is one of the cell’s own, which the host does not trust',
        )
      }

      const key = 0x41000000 + (process.pid & 0xffff)
      const make = spawn('perl', [
        '-e',
        `$| = 1; my $id = shmget(${key}, 4096, 0x200 | 0666); defined $id or die; print "made\\n"; <STDIN>; shmctl($id, 0, 0)`,
      ])
      const gone = new Promise((resolve) => make.once('exit', resolve))
      await new Promise((resolve) => make.stdout.once('data', resolve))
      const { lines: segment } = await under.perl(`print defined shmget(${key}, 4096, 0) ? "REACHED" : "refused"`)
      make.stdin.end('\n')
      await gone
      yield judge('no shared memory, semaphore or message queue is common', segment, ['refused'])

      // Last: where all processes of a cell see each other, it ends the cell.
      const { lines: signalled } = await under.sh(`kill -0 ${victim.pid} 2>/dev/null && echo REACHED || echo refused`)
      await under.sh('kill -9 -1')
      yield judge(
        'one of the same user cannot be signalled',
        { answered: signalled[0], exitCode: victim.exitCode, signal: victim.signalCode },
        { answered: 'refused', exitCode: null, signal: null },
      )
    } finally {
      victim.kill('SIGKILL')
    }
  },
}
