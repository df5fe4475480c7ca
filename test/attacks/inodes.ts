import { readdirSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { type Attack, judge } from './attack.ts'
import { smallLimits } from './limits.ts'

/** A file without content takes no space of the disk, but one of the file system's files. */
const flood = `$| = 1; print "started\\n"; my $n = 0; for my $d (1 .. 400) { mkdir "d$d"; for my $f (1 .. 250) { open my $x, ">", "d$d/$f" or do { print "refused after $n\\n"; exit }; $n++ } select undef, undef, undef, 0.02 } print "made $n\\n"; sleep 60; print "KEPT\\n"`
const filesMax = 16 * 2 ** 10
const lookEveryMs = 200

/** As many as the finished folders hold. */
const filesIn = (workspace: string) => (readdirSync(workspace).length - 1) * 250

export const inodes: Attack = {
  name: 'exhaust inodes',
  promise: 'A cell cannot use up the files of the disk with files that are empty',
  guard: 'the watcher of the disk counts files as well, one for each 4 KiB of the limit',
  async *run(on) {
    const under = await on.cell({ limits: smallLimits })
    const over = new AbortController()
    const ended = under.cell.ended.finally(() => over.abort())
    const wait = (ms: number) => delay(ms, null, { signal: over.signal }).catch(() => null)
    let isDone = false
    const flooding = under.perl(flood).finally(() => (isDone = true))
    async function watch(): Promise<string> {
      // From where the limit is passed: how long it takes to get there says nothing of the watcher.
      while (!over.signal.aborted && !isDone && filesIn(under.spec.workspace) < filesMax) await wait(lookEveryMs)
      await wait(on.patienceMs)
      if (over.signal.aborted) return ended
      await under[Symbol.asyncDispose]()
      return 'the cell went on'
    }
    const [{ lines }, reason] = await Promise.all([flooding, watch()])
    const stopped =
      lines.some((line) => line.startsWith('refused')) ||
      /(grew|shrank) by \d+ files, and the limit is \d+; they are kept$/.test(reason)
    yield judge(
      `empty files in the workspace stop near ${filesMax}`,
      { first: lines[0], kept: lines.includes('KEPT'), reason: stopped ? 'stopped' : reason },
      { first: 'started', kept: false, reason: 'stopped' },
    )
  },
}
