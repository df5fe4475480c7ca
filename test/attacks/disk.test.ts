import { expect, test } from 'vitest'
import { attack, cellUnderAttack, smallLimits } from './cell-under-attack.ts'

const grown =
  /^The cell was ended: (its workspace and home grew|the free space of its workspace and home shrank) by .*, and the limit is 64 MiB$/

attack('filling the disk', (driver) => {
  test.each([
    ['with many files', 'for i in $(seq 1 64); do head -c 16M /dev/zero > /workspace/$i; sleep 0.05; done'],
    ['in home', 'for i in $(seq 1 64); do head -c 16M /dev/zero > /home/agent/$i; sleep 0.05; done'],
    [
      'in a folder that cannot be read',
      'mkdir /workspace/d; for i in $(seq 1 64); do chmod 700 /workspace/d; head -c 16M /dev/zero > /workspace/d/$i; chmod 0 /workspace/d; sleep 0.05; done',
    ],
    [
      'with files that have no name any more',
      'perl -e \'my @open; for (1 .. 64) { open my $f, ">", "/workspace/x"; print $f "x" x (16 << 20); $f->flush; unlink "/workspace/x"; push @open, $f; select undef, undef, undef, 0.05 }\'',
    ],
  ])('%s ends the cell', async (_, script) => {
    await using under = await cellUnderAttack(driver, { limits: smallLimits })
    expect(under.cell.limits.find(({ name }) => name === 'disk')?.enforcement).toBe('watched')
    const [{ lines, code }, reason] = await Promise.all([
      under.sh(`echo started; ${script}; sleep 60; echo KEPT`),
      under.cell.ended,
    ])
    expect(lines[0]).toBe('started')
    expect(lines).not.toContain('KEPT')
    expect([code, reason]).toEqual([137, expect.stringMatching(grown)])
  })

  test('with one file stops at the size of a file', async () => {
    await using under = await cellUnderAttack(driver, { limits: smallLimits })
    const write = `$SIG{XFSZ} = "IGNORE"; open my $f, ">", "/workspace/big"; seek $f, (32 << 20) - 1, 0; my $in = syswrite $f, "x"; seek $f, 32 << 20, 0; print $in == 1 ? "written\\n" : "NOT WRITTEN\\n", defined(syswrite $f, "x") ? "WRITTEN\\n" : "refused\\n"`
    expect((await under.perl(write)).lines).toEqual(['written', 'refused'])
    const limit = under.cell.limits.find(({ name }) => name === 'file_size')
    expect(limit).toMatchObject({ enforcement: 'enforced', value: '32 MiB' })
  })

  test.each(['/tmp', '/dev/shm', '/var/tmp'])('in %s stops at its size', async (folder) => {
    await using under = await cellUnderAttack(driver, { limits: smallLimits })
    const { lines } = await under.sh(
      `head -c 4M /dev/zero > ${folder}/a && echo written; head -c 8M /dev/zero > ${folder}/b 2>/dev/null && echo WRITTEN || echo refused`,
    )
    expect(lines).toEqual(['written', 'refused'])
  })
})
