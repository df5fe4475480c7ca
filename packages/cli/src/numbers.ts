import { InvalidArgumentError } from 'commander'

/** Reads the number that a flag is given; the command line is wrong where it is none. */
export function numberFrom(min: number, max = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const number = /^\d+$/.test(text) ? Number(text) : NaN
    if (number >= min && number <= max) return number
    const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`
    throw new InvalidArgumentError(`It is not a whole number ${range}.`)
  }
}
