import type { DoctorReport } from '@anchorhold/protocol/doctor'
import { Failure } from '@anchorhold/protocol/failures'
import { noExtras } from '@anchorhold/protocol/sessions'
import type { CellDriver } from './cells/cell.ts'
import { run, trialSpecs } from './cells/trial.ts'

type ExtraReport = NonNullable<DoctorReport['rungs'][number]['extras']>[number]

/** What each is for, done inside. */
const proofs = {
  gpu: { argv: ['true'], shows: /^/ },
  sudo: { argv: ['sudo', '-n', 'id', '-u'], shows: /^0\n$/ },
  nested: { argv: ['podman', 'unshare', 'id', '-u'], shows: /^0\n$/ },
} as const satisfies Record<ExtraReport['name'], { readonly argv: readonly [string, ...string[]]; readonly shows: RegExp }>

/** Tries each in a cell of the image that has the programs for them; null where the time was not enough. Most refusals come before
 *  anything is started. */
export async function examineExtras(driver: CellDriver, root: string | null, signal: AbortSignal): Promise<ExtraReport[] | null> {
  const found: ExtraReport[] = []
  for (const [name, { argv, shows }] of Object.entries(proofs) as [ExtraReport['name'], (typeof proofs)[ExtraReport['name']]][]) {
    if (signal.aborted) return null
    await using specs = trialSpecs()
    const absent = (what: string, remedy: string): ExtraReport => ({ name, available: false, missing: [{ what, remedy }] })
    try {
      await using cell = await driver.start(await specs.make({ root, extras: { ...noExtras, [name]: true } }), signal)
      const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/home/agent' }
      const { output, said } = await run(cell, argv, { env })
      const last = said.trim().split('\n').at(-1) ?? ''
      found.push(
        shows.test(output)
          ? { name, available: true, missing: [] }
          : absent(`"${argv.join(' ')}" does not work in a cell: ${last}`, 'anchorhold image build --variant dev'),
      )
    } catch (error) {
      if (signal.aborted) return null
      if (!(error instanceof Failure)) throw error
      found.push(absent(error.message, error.hint ?? ''))
    }
  }
  return found
}
