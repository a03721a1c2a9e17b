package packing

// tableau is a linear program: the most of a sum, with at most so much of each row, solved by the simplex method. Columns may be added to a solved one.
type tableau struct {
	rows [][]float64 // each row's slack columns, then the others, then the right side
	cost []float64   // the same for what is to be the most; below nothing where a column would improve it
}

// MaxPivots bounds one solve.
const MaxPivots = 20_000

func newTableau(rhs []float64) *tableau {
	m := len(rhs)
	t := &tableau{cost: make([]float64, m+1)}
	for i, x := range rhs {
		row := make([]float64, m+1)
		row[i], row[m] = 1, x
		t.rows = append(t.rows, row)
	}
	return t
}

// add puts a column in, by what it takes of each row and what one of it is worth.
func (t *tableau) add(column []float64, worth float64) {
	t.cost = insert(t.cost, dot(t.prices(), column)-worth)
	for i, row := range t.rows {
		t.rows[i] = insert(row, dot(row[:len(column)], column))
	}
}

// insert puts x before the right side.
func insert(row []float64, x float64) []float64 {
	last := row[len(row)-1]
	return append(append(row[:len(row)-1], x), last)
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range b {
		sum += a[i] * b[i]
	}
	return sum
}

// prices says what one more of each row would be worth.
func (t *tableau) prices() []float64 { return t.cost[:len(t.rows)] }

// solve pivots until nothing improves. It takes the column that improves most; after half of the pivots the first, which cannot go in circles.
func (t *tableau) solve() {
	for pivot := range MaxPivots {
		column := -1
		for j, x := range t.cost[:len(t.cost)-1] {
			if x < -tolerance && (column < 0 || x < t.cost[column]) {
				column = j
				if pivot > MaxPivots/2 {
					break
				}
			}
		}
		if column < 0 {
			return
		}
		row, least := -1, 0.0
		for i, r := range t.rows {
			if r[column] <= tolerance {
				continue
			}
			if ratio := r[len(r)-1] / r[column]; row < 0 || ratio < least {
				row, least = i, ratio
			}
		}
		if row < 0 {
			return // without bound, which the rows of ceiling exclude
		}
		t.pivot(row, column)
	}
}

func (t *tableau) pivot(row, column int) {
	r := t.rows[row]
	x := r[column]
	for j := range r {
		r[j] /= x
	}
	for i, other := range t.rows {
		if i != row {
			eliminate(other, r, other[column])
		}
	}
	eliminate(t.cost, r, t.cost[column])
}

func eliminate(row, by []float64, x float64) {
	if x == 0 {
		return
	}
	for j := range row {
		row[j] -= x * by[j]
	}
}
