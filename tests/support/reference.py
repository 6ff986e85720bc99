"""Algorithm 1, dense and slow: every theta~_i and v_i stored, no cleverness.

NumPy in float64, one sample at a time, matrices as the paper writes them
(theta is [D_out, D_in], acting from the left). The oracle of the solver tests.
"""

import dataclasses
import itertools

import numpy as np

KINK = 1e-6


@dataclasses.dataclass
class Problem:
    """A small training problem with its starting weights and penalties."""

    x: np.ndarray
    y: np.ndarray
    theta: list
    classifier: np.ndarray
    alpha_theta: float = 0.3
    alpha_w: float = 0.7
    beta: float = 2.0
    gamma: float = 5.0
    margin: float = 0.0
    margin_weight: float = 0.0
    # Targets at the end of y that are no labels.
    others: int = 0


@dataclasses.dataclass
class Dense:
    """The algorithm's whole state; layer m of the paper is entry m - 1."""

    theta: list
    classifier: np.ndarray
    z: list
    u: list
    copies: list
    duals: list


def make_problem(num_samples=12, dims=(6, 5, 5, 4), num_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(num_samples, dims[0]))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.eye(num_classes)[rng.integers(num_classes, size=num_samples)]
    theta = [
        rng.normal(size=(d_out, d_in)) * np.sqrt(2.0 / d_in)
        for d_in, d_out in itertools.pairwise(dims)
    ]
    classifier = 0.5 * rng.normal(size=(dims[-1], num_classes))
    return Problem(x, y, theta, classifier)


def relu(v):
    return np.maximum(v, 0.0)


def start(problem):
    """Lines 1-2."""
    num = len(problem.x)
    z = [list(problem.x)]
    for theta in problem.theta:
        z.append([relu(theta @ row) for row in z[-1]])
    u = [None] + [[np.zeros_like(row) for row in rows] for rows in z[1:]]
    return Dense(
        theta=[t.copy() for t in problem.theta],
        classifier=problem.classifier.copy(),
        z=z,
        u=u,
        copies=[[t.copy() for _ in range(num)] for t in problem.theta],
        duals=[[np.zeros_like(t) for _ in range(num)] for t in problem.theta],
    )


def train(problem, iterations):
    s = start(problem)
    for _ in range(iterations):
        iterate(problem, s)
    return s


def iterate(p, s, code_steps=1, jacobi=False, damping=None):
    """Lines 5-14, in place. With `jacobi`, line 11 sees the codes before.

    With `damping`, gamma's term of line 11 has a metric (first iteration).
    """
    num, top = len(p.x), len(p.theta)
    before = [list(rows) for rows in s.z]
    metrics = [None] * top
    if damping is not None:
        metrics = [input_metric(np.array(x), damping) for x in before[:-1]]
    for i in range(num):
        wanted = None
        if p.margin:
            wanted = wanted_bits(p.y[i], s.classifier, p.others)
        hinge = (wanted, p.margin, p.margin_weight) if p.margin else None
        f = relu(s.copies[top - 1][i] @ s.z[top - 1][i])
        s.z[top][i] = top_code(f, s.u[top][i], p.y[i], s.classifier, p.beta)
        s.u[top][i] = s.u[top][i] + s.z[top][i] - f
        for m in range(top - 1, 0, -1):
            f = relu(s.copies[m - 1][i] @ s.z[m - 1][i])
            s.z[m][i] = hidden_code(
                f,
                s.u[m][i],
                s.z[m + 1][i] + s.u[m + 1][i],
                s.copies[m][i],
                code_steps,
                hinge if m + 1 == top else None,
            )
            s.u[m][i] = s.u[m][i] + s.z[m][i] - f
        for m in range(1, top + 1):
            s.copies[m - 1][i] = weight_copy(
                s.theta[m - 1] + s.duals[m - 1][i],
                (before if jacobi else s.z)[m - 1][i],
                s.z[m][i] + s.u[m][i],
                p.beta,
                p.gamma,
                hinge if m == top else None,
                metrics[m - 1],
            )
    for m in range(top):
        total = sum(s.copies[m][i] - s.duals[m][i] for i in range(num))
        s.theta[m] = p.gamma / (p.gamma * num + p.alpha_theta) * total
        for i in range(num):
            s.duals[m][i] = s.duals[m][i] + s.theta[m] - s.copies[m][i]
    z = np.array(s.z[top])
    s.classifier = np.linalg.solve(
        z.T @ z + p.alpha_w * np.eye(z.shape[1]), z.T @ p.y
    )


def iterate_without_search(p, s, shared):
    """Lines 5-14, first iteration; a code moves as far as the one above.

    Line 8 goes along its gradient, and is as long as half of the misfit above
    it: that of all samples together with `shared`, or of each.
    """
    num, top = len(p.x), len(p.theta)
    f = [list(rows) for rows in s.z]
    hinges = [None] * num
    pulls = []
    for i in range(num):
        if p.margin:
            wanted = wanted_bits(p.y[i], s.classifier, p.others)
            hinges[i] = (wanted, p.margin, p.margin_weight)
        s.z[top][i] = top_code(f[top][i], 0, p.y[i], s.classifier, p.beta)
        response = p.theta[-1] @ f[top - 1][i]
        target = 2 * s.z[top][i] - f[top][i]
        pull = 0.5 * (response > KINK) * (target - response)
        if p.margin:
            short = np.maximum(p.margin - wanted * response, 0.0)
            pull += 0.5 * p.margin_weight * wanted * short * (wanted != 0)
        pulls.append(pull)
    for m in range(top - 1, 0, -1):
        down = [
            (f[m][i] > KINK) * (p.theta[m].T @ pulls[i]) for i in range(num)
        ]
        for i in range(num):
            group = range(num) if shared else [i]
            want = sum(pulls[j] @ pulls[j] for j in group)
            have = sum(down[j] @ down[j] for j in group)
            s.z[m][i] = f[m][i] + np.sqrt(want / have) * down[i]
        pulls = [s.z[m][i] - f[m][i] for i in range(num)]
    for m in range(top):
        copies = [
            weight_copy(
                p.theta[m],
                f[m][i],
                2 * s.z[m + 1][i] - f[m + 1][i],
                p.beta,
                p.gamma,
                hinges[i] if m + 1 == top else None,
            )
            for i in range(num)
        ]
        s.theta[m] = p.gamma / (p.gamma * num + p.alpha_theta) * sum(copies)


def wanted_bits(y, classifier, others=0):
    """Sign of a label set's weight on each bit, against the average label.

    The last `others` targets are no labels and have mean zero.
    """
    labels = len(y) - others
    average = classifier[:, :labels].mean(axis=1)
    weight = sum(y[c] * (classifier[:, c] - average) for c in range(labels))
    weight += sum(y[c] * classifier[:, c] for c in range(labels, len(y)))
    return np.sign(weight)


def top_code(f, u, y, classifier, beta):
    """Line 5: the normal equations of its least squares."""
    lhs = classifier @ classifier.T + beta * np.eye(len(f))
    return np.linalg.solve(lhs, classifier @ y + beta * (f - u))


def hidden_code(f, u, target, copy, code_steps, hinge=None):
    """Line 8: steps from f - u along active units, exact line search."""
    center = f - u
    z = center.copy()
    for _ in range(code_steps):
        jac = copy * (copy @ z > KINK)[:, None]
        g = (z - center) + jac.T @ (relu(copy @ z) - target)
        hinge_jac = np.zeros_like(jac)
        if hinge is not None:
            wanted, margin, weight = hinge
            short = np.maximum(0, margin - wanted * (copy @ z))
            short[wanted == 0] = 0
            hinge_jac = np.sqrt(weight) * copy * (short > 0)[:, None]
            g = g - weight * copy.T @ (wanted * short)
        g = np.where(f > KINK, g, 0.0)
        if g @ g > 0:
            bend = np.sum((jac @ g) ** 2) + np.sum((hinge_jac @ g) ** 2)
            z = z - (g @ g) / (g @ g + bend) * g
    return z


def input_metric(x, damping):
    """Identity plus the mean's square by damping and mean square of rows."""
    mean = sum(x) / len(x)
    moment = sum(np.outer(row, row) for row in x) / len(x)
    unit = np.mean(np.linalg.eigvalsh(moment))
    return np.eye(len(mean)) + np.outer(mean, mean) / (damping * unit)


def weight_copy(center, x, target, beta, gamma, hinge=None, metric=None):
    """Line 11, row by row: the best of all points where a minimum can be.

    On a linear piece the cost is quadratic in the whole row, and its normal
    equations are solved densely; the other candidates lie on the kinks.
    """
    if not x.any():
        return center
    wanted, margin, weight = hinge or (np.zeros(len(center)), 0.0, 0.0)
    metric = np.eye(len(x)) if metric is None else metric
    along = np.linalg.solve(metric, x)
    rows = []
    for p, t, b in zip(center, target, wanted, strict=True):

        def cost(row, p=p, t=t, b=b):
            short = max(0.0, margin - b * (row @ x)) if b else 0.0
            fit = (t - relu(row @ x)) ** 2 + weight * short**2
            return beta * fit + gamma * (row - p) @ metric @ (row - p)

        candidates = [
            p + (kink - p @ x) / (x @ along) * along
            for kink in (0.0, b * margin)
        ]
        for relu_on in (0.0, 1.0):
            for hinge_on in (0.0, 1.0):
                pull = relu_on + weight * hinge_on
                lhs = beta * pull * np.outer(x, x) + gamma * metric
                goal = relu_on * t + weight * hinge_on * b * margin
                candidates.append(
                    np.linalg.solve(lhs, beta * goal * x + gamma * metric @ p)
                )
        rows.append(min(candidates, key=cost))
    return np.array(rows)


def augmented_lagrangian(p, s):
    """Eq. 9."""
    total = objective_terms(p, s.theta, s.classifier, np.array(s.z[-1]))
    for m in range(1, len(p.theta) + 1):
        for i in range(len(p.x)):
            f = relu(s.copies[m - 1][i] @ s.z[m - 1][i])
            gap = s.theta[m - 1] - s.copies[m - 1][i] + s.duals[m - 1][i]
            total += p.beta / 2 * np.sum((s.z[m][i] - f + s.u[m][i]) ** 2)
            total += p.gamma / 2 * np.sum(gap**2)
    return total


def objective(p, theta, classifier):
    """Eq. 4."""
    z = p.x
    for t in theta:
        z = relu(z @ t.T)
    return objective_terms(p, theta, classifier, z)


def objective_terms(p, theta, classifier, z):
    return (
        0.5 * np.sum((z @ classifier - p.y) ** 2)
        + p.alpha_theta / 2 * sum(np.sum(t**2) for t in theta)
        + p.alpha_w / 2 * np.sum(classifier**2)
    )
