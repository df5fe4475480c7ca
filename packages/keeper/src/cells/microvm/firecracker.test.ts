import { expect, test } from 'vitest'
import { firecrackerArgv, firecrackerConfig } from './firecracker.ts'

test('firecrackerConfig() gives a machine two disks that cannot be written, one line and no network', () => {
  const config = firecrackerConfig({ memoryBytes: 2 ** 30, cpus: 1.5 })
  expect(Object.keys(config).sort()).toEqual(['boot-source', 'drives', 'machine-config', 'vsock'])
  expect(config.drives).toHaveLength(2)
  for (const drive of config.drives) expect(drive).toMatchObject({ is_read_only: true, is_root_device: false })
  expect(config['machine-config']).toEqual({ vcpu_count: 2, mem_size_mib: 1024, smt: false })
  expect(firecrackerConfig({ memoryBytes: 2 ** 30, cpus: 64 })['machine-config'].vcpu_count).toBe(32)
})

test('firecrackerArgv() leaves the filter on and opens no API', () => {
  const argv = firecrackerArgv('/run/cell/machine.json')
  expect(argv).toEqual(expect.arrayContaining(['--no-api', '--config-file', '/run/cell/machine.json']))
  expect(argv).not.toContain('--no-seccomp')
})
