/** A file of an initramfs; a folder where there is no content. */
export type InitramfsEntry = { readonly path: string; readonly content: Buffer | null; readonly mode?: number }

/** What a kernel unpacks before anything else: a cpio archive in the `newc` form.
 *  https://docs.kernel.org/driver-api/early-userspace/buffer-format.html */
export function initramfs(entries: readonly InitramfsEntry[]): Buffer {
  const parts = [...entries, { path: 'TRAILER!!!', content: Buffer.alloc(0), mode: 0 }].map(({ path, content, mode }, index) => {
    const name = Buffer.from(`${path}\0`)
    const type = content === null ? 0o040000 : 0o100000
    const fields = [
      index + 1,
      path === 'TRAILER!!!' ? 0 : type | (mode ?? 0o755),
      ...[0, 0, 1, 0], // owner, group, links, time
      content?.length ?? 0,
      ...[0, 0, 0, 0], // devices
      name.length,
      0,
    ]
    const header = Buffer.from(`070701${fields.map((each) => each.toString(16).padStart(8, '0')).join('')}`)
    return Buffer.concat([padded(Buffer.concat([header, name])), padded(content ?? Buffer.alloc(0))])
  })
  return Buffer.concat(parts)
}

const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
