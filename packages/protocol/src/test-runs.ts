/** Of so many cases that a test makes up: all of them in a thorough run (`THOROUGH=1 npm test`), and a tenth otherwise. */
export const runs = (thorough: number): number => (process.env.THOROUGH === undefined ? Math.ceil(thorough / 10) : thorough)
