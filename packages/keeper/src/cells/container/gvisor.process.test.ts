import { existsSync, readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { cellContract } from '../contract.ts'
import { run, trialSpecs } from '../trial.ts'
import { gvisorCells } from './container.ts'
import { channelTests, describeWhereThere, endsAtOnceTests, foreignRootTests, testFiles } from './test-files.ts'

const files = testFiles()
const driver = gvisorCells(files)

await describeWhereThere(driver, () => {
  cellContract(driver, {
    'cannot make a file among the devices': "they are in gVisor's own memory, and runsc makes them writable",
  })
  foreignRootTests(driver)
  channelTests(driver)
  endsAtOnceTests(gvisorCells)

  test('gvisor: nobody outside can give runsc orders, which it takes by an abstract socket', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), AbortSignal.timeout(20_000))
    expect((await run(cell, ['echo', 'stands'])).output).toBe('stands\n')
    expect(readFileSync('/proc/net/unix', 'latin1')).not.toContain('runsc')
  })
  test('gvisor: what its own kernel would allow and ours does not is refused by the filter, and nothing else is', async () => {
    await using specs = trialSpecs()
    await using cell = await driver.start(await specs.make(), AbortSignal.timeout(20_000))
    // AF_UNIX, AF_INET and AF_INET6; then AF_NETLINK, AF_PACKET and AF_VSOCK.
    const sockets = 'for (1, 2, 10, 16, 17, 40) { print socket(S, $_, $_ == 16 ? 3 : 2, 0) ? "open " : ($! + 0) . " " }'
    expect((await run(cell, ['perl', '-e', sockets])).output).toBe('open open open 1 1 1 ')
    expect((await run(cell, ['unshare', '--user', 'true'])).said).toContain('Operation not permitted')
  })
  test.skipIf(!existsSync('/usr/bin/busybox'))('what lists files works on every runsc', async () => {
    await using specs = trialSpecs()
    const spec = await specs.make()
    await writeFile(`${spec.workspace}/five`, '12345', { mode: 0o644 })
    await using cell = await driver.start(spec, AbortSignal.timeout(20_000))
    const { output } = await run(cell, ['sh', '-c', 'ls; stat -c %s five'], { cwd: cell.place(spec.workspace) })
    expect(output).toBe('five\n5\n')
  })
})
