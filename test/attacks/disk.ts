import { type Attack, type AttackedCell, judge } from './attack.ts'
import { smallLimits } from './limits.ts'

const grown =
  /^The cell was ended: (its workspace and home grew|the free space of its workspace and home shrank) by .*, and the limit is 64 MiB; its files are kept$/

const write = (path: string) => `head -c 16M /dev/zero > ${path}`

/** Each writes far more than the limit; a watcher may be late by a moment. */
const ways: Readonly<Record<string, (cell: AttackedCell) => string>> = {
  'with many files': ({ workspace }) => `for i in $(seq 1 64); do ${write(`${workspace}/$i`)}; sleep 0.05; done`,
  'in home': ({ home }) => `for i in $(seq 1 64); do ${write(`${home}/$i`)}; sleep 0.05; done`,
  'in a folder that cannot be read': ({ workspace: w }) =>
    `mkdir ${w}/d; for i in $(seq 1 64); do chmod 700 ${w}/d; ${write(`${w}/d/$i`)}; chmod 0 ${w}/d; sleep 0.05; done`,
  'with files that have no name any more': ({ workspace: w }) =>
    `perl -e 'my @open; for (1 .. 64) { open my $f, ">", "${w}/x"; print $f "x" x (16 << 20); $f->flush; unlink "${w}/x"; push @open, $f; select undef, undef, undef, 0.05 }'`,
  'with space that is taken at once': ({ workspace: w }) =>
    `for i in $(seq 1 7); do fallocate -l 16M ${w}/$i; done; for i in $(seq 1 64); do ${write(`${w}/$i`)}; sleep 0.05; done`,
  'with programs that run and have no name any more': ({ workspace: w }) =>
    `for i in $(seq 1 32); do cp $(command -v perl) ${w}/p; head -c 16M /dev/zero >> ${w}/p; ${w}/p -e 'unlink "${w}/p"; print "gone\n"; sleep 60' < /dev/null & while [ -e ${w}/p ]; do sleep 0.05; done; done`,
}

export const disk: Attack = {
  name: 'exhaust the disk',
  promise: 'Workspace and home grow no further than the limit, and scratch space and each file stop at their size',
  guard: 'a watcher that ends the cell, a resource limit on files, file systems of a fixed size',
  async *run(on) {
    for (const [name, script] of Object.entries(ways)) {
      const under = await on.cell({ limits: smallLimits })
      const [{ lines, code }, reason] = await Promise.all([
        under.sh(`echo started; ${script(under)}; sleep 60; echo KEPT`),
        Promise.race([under.cell.ended, stillThere(under, on.patienceMs)]),
      ])
      yield judge(
        name,
        { first: lines[0], kept: lines.includes('KEPT'), code, reason: grown.test(reason) ? 'it grew' : reason },
        { first: 'started', kept: false, code: 137, reason: 'it grew' },
      )
      await under[Symbol.asyncDispose]()
    }

    const under = await on.cell({ limits: smallLimits })
    const big = `$SIG{XFSZ} = "IGNORE"; open my $f, ">", "${under.workspace}/big"; seek $f, (32 << 20) - 1, 0; my $in = syswrite $f, "x"; seek $f, 32 << 20, 0; print $in == 1 ? "written\\n" : "NOT WRITTEN\\n", defined(syswrite $f, "x") ? "WRITTEN\\n" : "refused\\n"`
    yield judge('one file stops at the size of a file', (await under.perl(big)).lines, ['written', 'refused'])
    for (const folder of ['/tmp', '/dev/shm', '/var/tmp']) {
      const { lines } = await under.sh(
        `head -c 4M /dev/zero > ${folder}/a && echo written; head -c 8M /dev/zero > ${folder}/b 2>/dev/null && echo WRITTEN || echo refused; rm -f ${folder}/a ${folder}/b`,
      )
      yield judge(`${folder} stops at its size`, lines, ['written', 'refused'])
    }
  },
}

/** The script stays for a while after it has written everything. */
const stillThere = (under: AttackedCell, patienceMs: number) =>
  new Promise<string>((resolve) => {
    const timer = setTimeout(() => {
      void under[Symbol.asyncDispose]()
      resolve('the cell went on')
    }, patienceMs)
    void under.cell.ended.then(() => clearTimeout(timer))
  })
