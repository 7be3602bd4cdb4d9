cell f(x) {
    return relu(x;
}
