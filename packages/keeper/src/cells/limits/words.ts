/** A size in words: `2 GiB`, `1.5 MiB`, `512 bytes`. */
export function inBytes(bytes: number): string {
  const unit = units.find(({ size }) => bytes >= size)
  if (unit === undefined) return `${bytes} bytes`
  return `${Number((bytes / unit.size).toFixed(1))} ${unit.name}`
}

const units = [
  { name: 'TiB', size: 2 ** 40 },
  { name: 'GiB', size: 2 ** 30 },
  { name: 'MiB', size: 2 ** 20 },
  { name: 'KiB', size: 2 ** 10 },
]
