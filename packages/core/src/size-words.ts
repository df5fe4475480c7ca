const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

/** A size as people read it: `512 B`, `1.5 MiB`, `2 GiB`. */
export function sizeWords(bytes: number): string {
  const sizes = units.map((unit, step) => ({ unit, size: Number((bytes / 1024 ** step).toFixed(1)) }))
  // By the rounded size, so that nothing is 1024 of a unit.
  const { size, unit } = sizes.find((one) => one.size < 1024) ?? sizes.at(-1)!
  return `${size} ${unit}`
}
