import { join } from 'node:path'
import { bytes, content, fill, json, type Registry, tableRegistry, zip } from './registry.ts'

const host = 'proxy.golang.org'
export const goModule = 'example.org/from-go'

/** A module proxy (https://go.dev/ref/mod#goproxy-protocol) with one module. There is no checksum database. */
export function goRegistry(scratch: string): Registry {
  const folder = join(scratch, 'go')
  const at = `${goModule}@v1.2.3`
  const mod = `module ${goModule}\n\ngo 1.19\n`
  fill(folder, { [`${at}/go.mod`]: mod, [`${at}/from.go`]: 'package from\n\nconst Said = "go brought this"\n' })
  const base = `${host}/${goModule}/@v`
  return tableRegistry(
    [host],
    new Map([
      [`${base}/list`, content('text/plain', 'v1.2.3\n')],
      [`${base}/v1.2.3.info`, json({ Version: 'v1.2.3', Time: '2026-01-01T00:00:00Z' })],
      [`${base}/v1.2.3.mod`, content('text/plain', mod)],
      [`${base}/v1.2.3.zip`, bytes(zip(folder, [`${at}/go.mod`, `${at}/from.go`]))],
    ]),
  )
}
